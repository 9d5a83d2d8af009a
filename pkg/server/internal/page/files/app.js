// The page: it follows the stream and the status, and shows both.
import { $, h, line, set, show } from './dom.js'
import { Refused, follow, json, signIn } from './feed.js'
import { keyOf } from './pod.js'
import * as pods from './pods.js'
import * as timeline from './timeline.js'
import * as detail from './detail.js'
import { statusText } from './status.js'

pods.onOpen(detail.openPod)
timeline.onOpen(detail.openUpdate)

let synced = false

// apply takes a line of the stream. A mark of the timeline is a change of one pod, as in the history.
function apply(update) {
  if (update.reset) {
    pods.clear()
    synced = false
  }
  if (update.initialSyncComplete) synced = true
  const mark = { time: Date.parse(update.time) || Date.now(), op: update.op, source: update.source, revision: update.revision }
  const marks = (update.pods ?? []).flatMap(pod => {
    const [row, changes] = pods.apply(update, pod)
    detail.refresh(row)
    if (update.owners && update.op === 'RECONCILE' && !changes?.length) return [] // its owners
    return { ...mark, namespace: row.namespace, name: row.name, pod: row.key, changes }
  })
  if (synced && update.op !== 'BOOKMARK') for (const m of update.pods?.length ? marks : [mark]) timeline.add(m)
  later()
}

// later draws what is new in one frame. Drawing takes at most a tenth of the time, and happens at most four
// times a second. No frame comes while the page is hidden.
let waiting = false
let wait = 0
function later() {
  if (waiting) return
  waiting = true
  setTimeout(() => requestAnimationFrame(() => {
    waiting = false
    const begin = performance.now()
    pods.draw()
    timeline.draw()
    detail.draw()
    wait = Math.max(250, 10 * (performance.now() - begin))
  }), wait)
}
setInterval(later, 1000)

function connection(state) {
  const live = state === 'live'
  const refused = state instanceof Refused
  $('sign-in').hidden = !(refused && state.status === 401)
  $('main').hidden = !$('sign-in').hidden
  timeline.connected(live || !synced)
  set($('live'), live ? '● live' : refused ? `▲ ${state.message}` : '▲ not connected, trying again')
  $('live').className = live ? 'is-ok' : 'is-bad'
  if (live) poll()
}

let timer = 0
async function poll() {
  clearTimeout(timer)
  try {
    const status = await json('v1alpha1/status')
    timeline.show(status.sources.map(s => s.name))
    timeline.started(Date.parse(status.startTime))
    statusText(status)
  } catch (err) {
    if (err instanceof Refused && err.status !== 401) show($('problems'), h('li', null, `The status is not shown: ${line(err.message)}`))
  }
  timer = setTimeout(poll, 2000)
}

// past reads the newest changes on disk, those before the page was opened.
async function past() {
  const opened = Date.now()
  try {
    const { records } = await json('v1alpha1/history?newest=true&limit=5000')
    const marks = records.reverse().map(r => ({ ...r, time: Date.parse(r.time) || opened, pod: keyOf(r.source, r) }))
    timeline.addPast(marks.filter(m => m.time <= opened))
  } catch (err) {
    set($('timeline-note'), err.status === 404 ? 'Without --state-dir, the timeline starts with the page.' : '')
  }
}

$('sign-in').addEventListener('submit', e => {
  e.preventDefault()
  signIn($('token').value)
  $('token').value = ''
  past()
})
addEventListener('keydown', e => {
  if (e.key === '/' && !e.target.closest('input, dialog')) { e.preventDefault(); $('filter').focus() }
})
past()
follow(apply, connection, pods.owners)
