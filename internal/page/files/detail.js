// What opens over the page: a pod with all that is known of it, and an update with its differences.
import { $, age, clock, day, h, line, show } from './dom.js'
import { get, json } from './feed.js'
import { healths } from './pod.js'

const dialog = $('detail')
let current = null

dialog.addEventListener('close', () => { current = null })
dialog.addEventListener('click', e => { if (e.target === dialog || e.target.closest('[data-close]')) dialog.close() })

function head(title, ...below) {
  show($('detail-head'), h('h2', { id: 'detail-title', class: 'id' }, line(title)), ...below)
  $('detail-body').scrollTop = 0
  if (!dialog.open) dialog.showModal()
}

const table = (titles, rows) => h('table', null,
  h('thead', null, h('tr', null, titles.map(t => h('th', { scope: 'col' }, t)))),
  h('tbody', null, rows.map(cells => h('tr', null, cells.map(c => h('td', null, c))))))
const section = (title, ...content) => h('section', null, h('h3', null, title), content)
const facts = pairs => pairs.some(([, v]) => v) && h('dl', null, pairs.filter(([, v]) => v).map(([k, v]) => [h('dt', null, k), h('dd', { class: 'id' }, line(v))]))

// lines colours the lines of a difference. The signs say the same.
export const changed = lines => h('ul', { class: 'diff' }, lines.map(text => {
  const [, path, was, is] = /^(.*?): (.*) → (.*)$/s.exec(text) ?? []
  return h('li', null, path === undefined ? text : [
    h('div', { class: 'path' }, line(path)), h('del', null, '− ', line(was)), h('ins', null, '+ ', line(is))])
}))

export function openUpdate(mark, row) {
  current = null
  head(`${mark.op} ${mark.name ? `${mark.namespace}/${mark.name}` : `of ${mark.count} pods`}`,
    h('p', { class: 'muted' }, `${day(mark.time)} ${clock(mark.time)} · source ${line(mark.source ?? '–')} · revision ${mark.revision ?? '–'}`))
  show($('detail-body'),
    mark.file && facts([['File', mark.file.path], ['Owner', `${mark.file.uid}:${mark.file.gid}`], ['Mode', mark.file.mode]]),
    mark.message && h('p', null, line(mark.message)),
    mark.changes?.length ? section('What changed', changed(mark.changes)) : h('p', { class: 'muted' }, nothing(mark)),
    mark.names?.length > 1 && section('Pods', h('ul', { class: 'plain id' }, mark.names.map(n => h('li', null, line(n)))),
      mark.count > mark.names.length && h('p', { class: 'muted' }, `and ${mark.count - mark.names.length} more`)),
    row && h('p', null, h('button', { type: 'button', onclick: () => openPod(row) }, 'Open the pod')))
}

function nothing(mark) {
  if (mark.op === 'ADD') return mark.count === 0 ? 'The first set of the source changed nothing.' : 'The pod is new.'
  if (mark.op === 'REMOVE') return mark.replaced ? 'Another version takes over the name.' : 'The source has the pod no longer.'
  return 'No difference is known.'
}

const tabs = { Containers: containers, Conditions: conditions, History: history, YAML: yaml }
let tab = 'Containers'

// openPod opens a pod. marks are the updates that the page saw.
export function openPod(row, marks = current?.marks ?? (() => [])) {
  current = { row, marks }
  $('detail-body').shown = null
  refresh(row)
}

// refresh shows the newest version of the pod that is open.
export function refresh(row, gone) {
  if (current?.row.key !== row.key) return
  current.row = row
  const [mark, word] = healths[row.health]
  head(`${row.namespace}/${row.name}`,
    h('p', null, h('span', { class: 'is-' + row.health }, `${mark} ${line(row.status)}`), h('span', { class: 'muted' }, ` · ${word} · ready ${row.ready} · restarts ${row.restarts} · ${row.source}`),
      gone && h('strong', { class: 'is-bad' }, ' · removed')),
    h('div', { role: 'tablist', 'aria-label': 'Parts of the pod', onkeydown: arrow }, Object.keys(tabs).map(name => h('button', {
      type: 'button', role: 'tab', id: 'tab-' + name, 'aria-selected': String(name === tab), 'aria-controls': 'detail-body',
      class: name === tab ? 'on' : '', tabindex: name === tab ? 0 : -1, onclick: () => choose(name),
    }, name))))
  draw()
}

function choose(name) {
  tab = name
  $('detail-body').shown = null
  refresh(current.row)
  $('tab-' + name).focus()
}

function arrow(e) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key]
  const names = Object.keys(tabs)
  if (step) choose(names[(names.indexOf(tab) + step + names.length) % names.length])
}

async function draw() {
  const { row } = current
  const asked = tab
  $('detail-body').setAttribute('aria-labelledby', 'tab-' + tab)
  let content
  try {
    content = await tabs[tab](row)
  } catch (err) {
    content = h('p', { class: 'muted' }, err.message)
  }
  if (current?.row.key === row.key && tab === asked) show($('detail-body'), content)
}

function stateOf(state = {}) {
  const [name, s] = Object.entries(state)[0] ?? ['not known', {}]
  const code = s.exitCode === undefined ? '' : `exit code ${s.exitCode}`
  return [name, s.reason, code, s.message, s.startedAt && `since ${age(s.startedAt)}`].filter(Boolean).map(line).join(', ')
}

function containers({ pod }) {
  const { spec = {}, status = {} } = pod
  const statuses = Object.fromEntries([...status.initContainerStatuses ?? [], ...status.containerStatuses ?? []].map(s => [s.name, s]))
  const all = [...(spec.initContainers ?? []).map(c => ({ ...c, init: true })), ...spec.containers ?? []]
  return h('div', null,
    facts([['Pod IP', status.podIPs?.map(i => i.ip).join(', ')], ['Phase', status.phase], ['Message', status.message], ['UID', pod.metadata.uid], ['QoS', status.qosClass]]),
    all.length ? all.map(c => section((c.init ? 'Init container ' : '') + line(c.name), facts([
      ['Image', c.image], ['State', stateOf(statuses[c.name]?.state)], ['Last', statuses[c.name]?.lastState?.terminated && stateOf(statuses[c.name].lastState)],
      ['Restarts', statuses[c.name] && String(statuses[c.name].restartCount)], ['Ports', c.ports?.map(p => `${p.containerPort}/${p.protocol ?? 'TCP'}`).join(', ')],
      ['Command', [...c.command ?? [], ...c.args ?? []].join(' ')], ['ID', statuses[c.name]?.containerID]])))
      : h('p', { class: 'muted' }, 'The access rules show no containers.'))
}

function conditions({ pod }) {
  const all = pod.status?.conditions ?? []
  if (!all.length) return h('p', { class: 'muted' }, 'The pod has no conditions.')
  return table(['Condition', 'Status', 'Reason', 'Message', 'Since'], all.map(c => [line(c.type), line(c.status), line(c.reason ?? ''), line(c.message ?? ''), age(c.lastTransitionTime)]))
}

const entry = m => section(`${m.op} · ${day(m.time)} ${clock(m.time)}`, m.changes?.length ? changed(m.changes) : h('p', { class: 'muted' }, nothing(m)))

// history has the changes on disk, or without a state directory those that the page saw.
async function history(row) {
  const seen = current.marks(row)
  const path = `v1alpha1/history?newest=true&limit=50&pod=${encodeURIComponent(`${row.namespace}/${row.name}`)}`
  const records = await json(path).then(page => page.records.filter(r => r.op), () => seen.slice(-50).reverse())
  if (!records.length) return h('p', { class: 'muted' }, 'The pod has not changed since the page was opened.')
  return h('div', null, records.map(r => entry({ ...r, time: Date.parse(r.time) || r.time, count: 1 })))
}

async function yaml(row) {
  const path = `api/v1/namespaces/${encodeURIComponent(row.namespace)}/pods/${encodeURIComponent(row.name)}`
  return h('pre', { tabindex: 0, 'aria-label': 'YAML' }, await (await get(path, 'application/yaml')).text())
}

