// What opens over the page: a pod with all that is known of it, or an update with its differences.
import { $, age, brief, clock, day, h, line, show } from './dom.js'
import { get, json } from './feed.js'
import { healths } from './pod.js'
import { named } from './pods.js'
import { seen } from './timeline.js'

const dialog = $('detail')
const parts = { containers, conditions, history, yaml }
let current = null // the row of the pod that is open
let stale = false
let drawing = false
let asked = false // by the user: it does not wait for the next frame

dialog.addEventListener('close', () => { if (!dialog.open) current = null }) // the event can come after the next pod opened
dialog.addEventListener('click', e => { if (e.target === dialog || e.target.closest('[data-close]')) dialog.close() })
for (const name of Object.keys(parts)) $(name).addEventListener('toggle', () => { stale = asked = true; draw() })

const quiet = text => h('p', { class: 'muted' }, text)
const section = (title, ...content) => h('section', null, h('h3', null, title), content)
const facts = pairs => h('dl', null, pairs.filter(([, v]) => v).map(([k, v]) => [h('dt', null, k), h('dd', { class: 'id' }, line(brief(v, 4000)))]))

function open(title, row) {
  current = row
  $('update').hidden = row !== null
  $('pod').hidden = row === null
  show($('detail-title'), line(brief(title, 500)))
  if (!dialog.open) dialog.showModal()
}

// what shows what an update changed. The signs say the same as the colours.
function what(mark) {
  if (mark.changes?.length) {
    return h('ul', { class: 'diff' }, mark.changes.map(text => {
      const [, path, was, is] = /^(.*?): (.*) → (.*)$/s.exec(text) ?? []
      return h('li', null, path === undefined ? line(text) : [h('div', { class: 'muted' }, line(path)), h('del', null, '− ', line(was)), h('ins', null, '+ ', line(is))])
    }))
  }
  if (mark.op === 'ADD') return quiet(mark.name ? 'The pod is new.' : 'The first set of the source changed nothing.')
  if (mark.op === 'REMOVE') return quiet(mark.replaced ? 'Another version takes over the name.' : 'The source has the pod no longer.')
  return quiet('No difference is known.')
}

export function openUpdate(mark) {
  const row = named(mark.pod)
  open(mark.name ? `${mark.namespace}/${mark.name}` : 'First set', null)
  show($('detail-about'), `${mark.op} · ${day(mark.time)} ${clock(mark.time)} · ${line(mark.source ?? '–')} · revision ${mark.revision ?? '–'}`)
  show($('update'),
    section('What changed', what(mark)),
    mark.file && section('Manifest file', facts([['File', mark.file.path], ['Owner', `${mark.file.uid}:${mark.file.gid}`], ['Mode', mark.file.mode]])),
    row && h('p', null, h('button', { type: 'button', onclick: () => openPod(row) }, 'Open the pod')))
}

export function openPod(row) {
  open(`${row.namespace}/${row.name}`, row)
  for (const name of Object.keys(parts)) show($(name).lastElementChild)
  refresh(row)
  asked = true
  draw()
}

// refresh takes a new version of a pod.
export function refresh(row) {
  if (current?.key !== row.key) return
  current = row
  stale = true
}

// draw shows what is new of the open pod.
export async function draw() {
  if (!current || !stale || drawing) return
  const row = current
  stale = asked = false
  drawing = true
  const [mark, word] = healths[row.health]
  show($('detail-about'), h('span', { class: 'is-' + row.health }, `${mark} ${line(brief(row.status))}`), ` · ${word} · ready ${row.ready} · restarts ${row.restarts} · ${row.source}`,
    row.gone && h('strong', { class: 'is-bad' }, ' · removed'))
  for (const [name, part] of Object.entries(parts)) {
    if (!$(name).open) continue
    const content = await Promise.resolve(row).then(part).catch(err => quiet(err.message))
    if (current?.key === row.key) show($(name).lastElementChild, content)
  }
  drawing = false
  if (asked) draw()
}

function stateOf(state = {}) {
  const [name, s] = Object.entries(state)[0] ?? ['not known', {}]
  return [name, s.reason, s.exitCode >= 0 && `exit code ${s.exitCode}`, s.message, s.startedAt && `since ${age(s.startedAt)}`].filter(Boolean).join(', ')
}

function containers({ pod: { metadata, spec = {}, status = {} } }) {
  const statuses = [...status.initContainerStatuses ?? [], ...status.containerStatuses ?? []]
  const container = (kind, c) => {
    const { state, lastState = {}, restartCount, containerID } = statuses.find(s => s.name === c.name) ?? {}
    return section(kind + line(c.name), facts([
      ['Image', c.image], ['State', stateOf(state)], ['Last', lastState.terminated && stateOf(lastState)], ['Restarts', restartCount],
      ['Ports', c.ports?.map(p => `${p.containerPort}/${p.protocol ?? 'TCP'}`).join(', ')],
      ['Command', [...c.command ?? [], ...c.args ?? []].join(' ')], ['ID', containerID]]))
  }
  return [
    facts([['Pod IP', status.podIPs?.map(i => i.ip).join(', ')], ['Phase', status.phase], ['Message', status.message], ['UID', metadata.uid], ['QoS', status.qosClass]]),
    spec.initContainers?.map(c => container('Init container ', c)),
    spec.containers?.map(c => container('', c)) ?? quiet('The access rules show no containers.'),
  ]
}

function conditions({ pod }) {
  const all = pod.status?.conditions ?? []
  if (!all.length) return quiet('The pod has no conditions.')
  return facts(all.map(c => [c.type, [c.status, c.reason, c.message, `since ${age(c.lastTransitionTime)}`].filter(Boolean).join(', ')]))
}

// history has the changes on disk, or without a state directory those that the page saw.
async function history(row) {
  const path = `v1alpha1/history?newest=true&limit=50&pod=${encodeURIComponent(`${row.namespace}/${row.name}`)}`
  const records = await json(path).then(page => page.records, () => seen(row.key))
  const entries = records.filter(r => r.op && !r.replaced).map(r => section(`${r.op} · ${day(new Date(r.time))} ${clock(new Date(r.time))}`, what(r)))
  return entries.length ? entries : quiet('The pod has not changed since the page was opened.')
}

async function yaml(row) {
  const path = `api/v1/namespaces/${encodeURIComponent(row.namespace)}/pods/${encodeURIComponent(row.name)}`
  return h('pre', { tabindex: 0, 'aria-label': 'YAML' }, await (await get(path, 'application/yaml')).text())
}
