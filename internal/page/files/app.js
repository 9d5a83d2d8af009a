// The page: it follows the stream and the status, and shows both.
import { $, h, line, set, show } from './dom.js'
import { Refused, again, follow, json, useToken } from './feed.js'
import { Grid } from './grid.js'
import { Timeline } from './timeline.js'
import { openPod, openUpdate, refresh } from './detail.js'
import { changes, rowOf } from './pod.js'
import { statusText } from './status.js'

const grid = new Grid(row => openPod(row, marksOf))
const timeline = new Timeline(mark => openUpdate(mark, [...grid.rows.values()].find(r => r.name === mark.name && r.namespace === mark.namespace)))
const marksOf = row => timeline.marks.filter(m => m.name === row.name && m.namespace === row.namespace)
const removed = new Map() // the last versions of removed pods: the next with that name differs from them
let synced = false
let resetting = false
let dirty = true
let lost = null

// apply takes a line of the stream.
function apply(update) {
  if (update.reset) {
    grid.rows.clear()
    synced = false
    resetting = true
  }
  if (update.initialSyncComplete) synced = true
  if (update.op === 'BOOKMARK') resetting &&= !update.initialSyncComplete
  const mark = { time: Date.parse(update.time) || Date.now(), op: update.op, source: update.source, revision: update.revision, count: update.pods?.length ?? 0, names: [] }
  for (const pod of update.pods ?? []) {
    const found = applyPod(update, pod)
    mark.names.push(`${pod.metadata.namespace}/${pod.metadata.name}`)
    if (found?.length) mark.changes = [...mark.changes ?? [], ...found].slice(0, 30)
  }
  if (mark.count === 1) Object.assign(mark, { namespace: update.pods[0].metadata.namespace, name: update.pods[0].metadata.name })
  mark.names.length = Math.min(mark.names.length, 50)
  if (synced && update.op !== 'BOOKMARK') timeline.add(mark)
  dirty = true
}

// applyPod returns what changed in the pod.
function applyPod(update, pod) {
  const row = rowOf(update.source, pod)
  const name = `${row.source}/${row.namespace}/${row.name}`
  const was = grid.rows.get(row.key)?.pod ?? removed.get(name)
  if (update.op === 'REMOVE') {
    grid.rows.delete(row.key)
    removed.set(name, pod)
    if (removed.size > 200) removed.delete(removed.keys().next().value)
    refresh(row, true)
    return null
  }
  removed.delete(name)
  grid.rows.set(row.key, row)
  refresh(row)
  return synced && was ? changes(was, pod) : null
}

// draw shows what is new, at most four times a second.
function draw() {
  if (!document.hidden && dirty) {
    dirty = false
    grid.update()
    timeline.draw()
  }
}
setInterval(draw, 250)
setInterval(() => { dirty = true }, 1000)

function connection(state) {
  const live = state === 'live'
  const refused = state instanceof Refused
  $('sign-in').hidden = !(refused && state.status === 401)
  $('main').hidden = !$('sign-in').hidden
  if (live && lost) lost.to = Date.now()
  if (!live && !lost && synced) timeline.gaps = [...timeline.gaps, { from: Date.now() }].slice(-100)
  lost = live ? null : lost ?? timeline.gaps.at(-1) ?? null
  set($('live'), live ? '● live' : refused ? `▲ ${state.message}` : '▲ not connected, trying again')
  $('live').className = live ? 'is-ok' : 'is-bad'
  if (live) poll()
}

let timer = 0
async function poll() {
  clearTimeout(timer)
  if (!document.hidden) {
    try {
      const status = await json('v1alpha1/status')
      timeline.sources = status.sources.map(s => s.name)
      statusText(status)
      dirty = true
    } catch (err) {
      if (err instanceof Refused && err.status !== 401) show($('problems'), h('li', null, `The status is not shown: ${line(err.message)}`))
    }
  }
  timer = setTimeout(poll, 2000)
}

// past reads the newest changes on disk, those before the page was opened.
async function past() {
  const opened = Date.now()
  const found = []
  try {
    for (let token = ''; found.length < 5000;) {
      const page = await json(`v1alpha1/history?newest=true&limit=1000${token && `&continue=${encodeURIComponent(token)}`}`)
      for (const r of page.records) {
        const time = Date.parse(r.time)
        if (r.gap) timeline.gaps.push({ from: time || opened, to: time || opened })
        else if (time < opened) found.push({ ...r, time, count: r.name ? 1 : 0 })
      }
      token = page.continue
      if (!token) break
    }
  } catch (err) {
    set($('timeline-note'), err.status === 404 ? 'Without --state-dir, the timeline starts with the page.' : '')
  }
  timeline.past(found.reverse())
}

$('sign-in').addEventListener('submit', e => {
  e.preventDefault()
  useToken($('token').value)
  $('token').value = ''
  again()
  past()
})
addEventListener('keydown', e => {
  if (e.key === '/' && !e.target.closest('input, select, dialog')) { e.preventDefault(); $('filter').focus() }
})
document.addEventListener('visibilitychange', () => { if (!document.hidden) poll() })
$('feed').open = innerWidth > 640
past()
follow(apply, connection)
