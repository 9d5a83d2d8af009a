// The pods of the stream, in a table that filters and sorts.
import { $, age, h, set } from './dom.js'
import { makeGrid } from './grid.js'
import { changes, healths, rowOf } from './pod.js'

// A row with size is that of an owner, with the pods below.
const columns = [
  { id: 'namespace', title: 'Namespace' },
  { id: 'name', title: 'Name', look: r => r.size ? 'owner' : '' },
  { id: 'ready', title: 'Ready' },
  { id: 'status', title: 'Status', text: r => r.size ? `${r.size} pod${r.size > 1 ? 's' : ''}` : `${healths[r.health][0]} ${r.status}`, look: r => 'is-' + r.health, hint: r => r.size ? '' : healths[r.health][1] },
  { id: 'restarts', title: 'Restarts', first: -1, text: r => r.restarted ? `${r.restarts} (${age(r.restarted)} ago)` : r.restarts, look: r => r.restarts ? 'is-wait' : '' },
  { id: 'created', title: 'Age', first: -1, text: r => r.size ? '' : age(r.created) },
  { id: 'source', title: 'Source' },
  { id: 'ip', title: 'IP', text: r => r.size ? '' : r.ip || '–' },
]
const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0
const count = n => n.toLocaleString('en')

let open = null
export const onOpen = f => { open = f }

const grid = makeGrid($('pods'), columns, row => row.size || open(row), c => h('button', { type: 'button', tabindex: '-1', onclick: () => sortBy(c) }, c.title))
const rows = new Map()
const removed = new Map() // the last versions of removed pods: the next with that name differs from them
let sort = 'namespace'
let direction = 1
let changed = true
let owned = false // the stream has the owners

export function clear() {
  rows.clear()
  changed = true
}

export const named = key => rows.get(key)

export function owners(known) { owned = known }

// apply takes a pod of an update. It returns its row, and what changed.
export function apply(update, pod) {
  const row = rowOf(update.source, pod, update.owners?.[pod.metadata.uid])
  const was = rows.get(row.key)?.pod ?? removed.get(row.key)
  changed = true
  removed.delete(row.key)
  if (update.op === 'REMOVE') {
    row.gone = true
    rows.delete(row.key)
    removed.set(row.key, pod)
    if (removed.size > 200) removed.delete(removed.keys().next().value)
    return [row]
  }
  rows.set(row.key, row)
  return [row, was && changes(was, pod)]
}

function sortBy(column) {
  direction = sort === column.id ? -direction : column.first ?? 1
  sort = column.id
  changed = true
  draw()
}

$('filter').addEventListener('input', () => { changed = true; draw() })

export function draw() {
  if (changed) arrange()
  grid.draw()
}

// arrange filters and sorts the rows.
function arrange() {
  changed = false
  const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean)
  const all = [...rows.values()]
  const shown = words.length ? all.filter(r => words.every(w => r.words.includes(w))) : all
  shown.sort((a, b) => owned && (compare(a.owner, b.owner) || compare(a.group, b.group)) || direction * compare(a[sort], b[sort]) || compare(a.namespace, b.namespace) || compare(a.name, b.name))
  columns.forEach((c, i) => { grid.titles[i].ariaSort = c.id !== sort ? 'none' : direction > 0 ? 'ascending' : 'descending' })
  set($('pod-count'), words.length ? `${count(shown.length)} of ${count(all.length)}` : count(all.length))
  $('no-pods').hidden = shown.length > 0
  set($('no-pods'), all.length ? 'No pod matches the filter.' : 'No pods.')
  grid.show(owned ? grouped(shown) : shown)
}

// grouped returns the rows below a row of their owner.
function grouped(shown) {
  const heads = new Map()
  return shown.flatMap(r => {
    const key = `${r.owner} ${r.group}`
    const head = heads.get(key)
    if (head) return head.size++, [r]
    heads.set(key, { key: 'owner ' + key, namespace: r.group, name: r.owner, size: 1, health: 'none' })
    return [heads.get(key), r]
  })
}
