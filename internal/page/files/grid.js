// The table of pods. Only the rows in sight are elements, so 5,000 pods scroll as 50 do.
import { $, age, h, line, set } from './dom.js'
import { healths } from './pod.js'

const columns = [
  { id: 'namespace', title: 'Namespace' }, { id: 'name', title: 'Name' },
  { id: 'ready', title: 'Ready' }, { id: 'status', title: 'Status' },
  { id: 'restarts', title: 'Restarts', first: -1 },
  { id: 'created', title: 'Age', first: -1 },
  { id: 'source', title: 'Source' }, { id: 'ip', title: 'IP' },
]
const spare = 4 // rows beyond those in sight
const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0

export class Grid {
  rows = new Map()
  shown = []
  active = ''
  sort = 'namespace'
  direction = 1
  pool = []

  constructor(open) {
    this.open = open
    this.box = $('pods')
    this.sizer = $('pod-rows')
    $('pod-head').append(...columns.map(c => h('div', { role: 'columnheader', class: 'c-' + c.id, 'data-id': c.id },
      h('button', { type: 'button', tabindex: '-1', onclick: () => this.sortBy(c) }, c.title))))
    this.box.addEventListener('scroll', () => this.draw(), { passive: true })
    new ResizeObserver(() => this.draw()).observe(this.box)
    this.box.addEventListener('keydown', e => this.key(e))
    this.sizer.addEventListener('click', e => this.click(e))
    $('filter').addEventListener('input', () => this.update())
    $('sort').append(...columns.map(c => h('option', { value: c.id }, c.title)))
    $('sort').addEventListener('change', e => this.sortBy(columns.find(c => c.id === e.target.value)))
  }

  sortBy(column) {
    this.direction = this.sort === column.id ? -this.direction : column.first ?? 1
    this.sort = column.id
    this.update()
  }

  // update filters and sorts the rows again.
  update() {
    const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean)
    const { sort, direction } = this
    this.shown = [...this.rows.values()].filter(r => words.every(w => r.words.includes(w)))
    this.shown.sort((a, b) => direction * compare(a[sort], b[sort]) || compare(a.namespace, b.namespace) || compare(a.name, b.name))
    for (const head of $('pod-head').children) {
      const is = head.dataset.id === sort
      head.setAttribute('aria-sort', is ? (direction > 0 ? 'ascending' : 'descending') : 'none')
    }
    $('sort').value = sort
    this.box.setAttribute('aria-rowcount', this.shown.length + 1)
    set($('pod-count'), words.length ? `${this.shown.length.toLocaleString('en')} of ${this.rows.size.toLocaleString('en')}` : this.rows.size.toLocaleString('en'))
    $('no-pods').hidden = this.shown.length > 0
    set($('no-pods'), this.rows.size ? 'No pod matches the filter.' : 'No pods.')
    this.draw()
  }

  draw() {
    const height = parseFloat(getComputedStyle(this.box).getPropertyValue('--row'))
    this.sizer.style.height = this.shown.length * height + 'px'
    const first = Math.max(0, Math.floor(this.box.scrollTop / height) - spare)
    const last = Math.min(this.shown.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / height) + spare)
    while (this.pool.length < last - first) this.pool.push(this.add())
    let active = ''
    this.pool.forEach((e, i) => {
      const row = this.shown[first + i]
      e.hidden = first + i >= last
      if (e.hidden) return
      e.style.transform = `translateY(${(first + i) * height}px)`
      this.fill(e, row, first + i)
      if (row.key === this.active) active = e.id
    })
    if (active) this.box.setAttribute('aria-activedescendant', active)
    else this.box.removeAttribute('aria-activedescendant')
  }

  add() {
    const e = h('div', { role: 'row', class: 'row', id: 'row-' + this.pool.length },
      columns.map(c => h('div', { role: 'gridcell', class: 'c-' + c.id })))
    this.sizer.append(e)
    return e
  }

  fill(e, row, index) {
    e.setAttribute('aria-rowindex', index + 2)
    e.setAttribute('aria-selected', row.key === this.active)
    e.dataset.key = row.key
    const [mark, word] = healths[row.health]
    const texts = {
      ...row, created: row.created ? age(row.created) : '–', status: `${mark} ${row.status}`, ip: row.ip || '–',
    }
    columns.forEach((c, i) => set(e.children[i], line(texts[c.id] ?? '')))
    e.children[1].title = line(row.name)
    e.children[3].className = `c-status is-${row.health}`
    e.children[3].title = word
  }

  click(e) {
    const row = this.rows.get(e.target.closest('.row')?.dataset.key)
    if (!row || getSelection().type === 'Range') return
    this.active = row.key
    this.draw()
    this.open(row)
  }

  key(e) {
    const at = this.shown.findIndex(r => r.key === this.active)
    const height = parseFloat(getComputedStyle(this.box).getPropertyValue('--row'))
    const page = Math.max(1, Math.floor(this.box.clientHeight / height) - 2)
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: Infinity }[e.key]
    if (e.key === 'Enter' && at >= 0) this.open(this.shown[at])
    else if (to === undefined || !this.shown.length) return
    else {
      const next = Math.min(Math.max(0, to), this.shown.length - 1)
      this.active = this.shown[next].key
      const head = $('pod-head').offsetHeight
      if (next * height < this.box.scrollTop) this.box.scrollTop = next * height
      if ((next + 1) * height + head > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = (next + 1) * height + head - this.box.clientHeight
      this.draw()
    }
    e.preventDefault()
  }
}
