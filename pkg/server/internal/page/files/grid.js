// A table of which only the rows in sight are elements: 20,000 rows scroll as 50 do. Drawing does not ask
// for the layout: sizes come from an observer.
import { brief, h, line, set } from './dom.js'

const spare = 4 // rows beyond those in sight
const keyOf = item => item.key ?? item

// makeGrid fills a box. columns are {id, title, text, look, hint}: functions of an item. Without text, it is the
// property of the column's name. An item with a key stays selected when another takes its place. head makes the
// content of a title.
export function makeGrid(box, columns, open, head = column => column.title) {
  const titles = columns.map(c => h('div', { role: 'columnheader', class: 'c-' + c.id }, head(c)))
  const body = h('div', { role: 'rowgroup', class: 'rows' })
  const pool = []
  let items = []
  let active = null // the key of the selected item
  let height = 0 // of the box in pixels
  let rowHeight = 26
  let top = 0

  function draw() {
    const first = Math.max(0, Math.floor(top / rowHeight) - spare)
    const last = Math.min(items.length, Math.ceil((top + height) / rowHeight) + spare)
    box.setAttribute('aria-rowcount', items.length + 1)
    box.removeAttribute('aria-activedescendant')
    body.style.height = items.length * rowHeight + 'px'
    while (pool.length < last - first) {
      pool.push(h('div', { role: 'row', class: 'row', id: `${box.id}-${pool.length}` }, columns.map(() => h('div', { role: 'gridcell' }))))
      body.append(pool.at(-1))
    }
    pool.forEach((e, i) => {
      e.hidden = first + i >= last
      if (!e.hidden) fill(e, items[first + i], first + i)
    })
  }

  function fill(e, item, index) {
    const same = e.item === item
    const selected = keyOf(item) === active
    if (selected) box.setAttribute('aria-activedescendant', e.id)
    e.item = item
    e.ariaRowIndex = index + 2
    e.ariaSelected = selected
    e.style.transform = `translateY(${index * rowHeight}px)`
    columns.forEach((c, i) => {
      const cell = e.children[i]
      const text = line(brief((c.text ? c.text(item) : item[c.id]) ?? '', 500))
      if (same && cell.shown === text) return
      set(cell, text)
      cell.title = c.hint ? c.hint(item) : text
      cell.className = `c-${c.id} ${c.look ? c.look(item) : ''}`
    })
  }

  function select(item) {
    active = keyOf(item)
    draw()
  }

  function key(e) {
    const at = items.findIndex(item => keyOf(item) === active)
    const page = Math.max(1, Math.floor(height / rowHeight) - 2)
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: Infinity }[e.key]
    if (e.target !== box || !items.length || e.key !== 'Enter' && to === undefined) return
    e.preventDefault()
    if (to === undefined) return at < 0 || open(items[at])
    const next = Math.min(Math.max(0, to), items.length - 1)
    const bottom = (next + 2) * rowHeight - height // the head is as high as a row
    box.scrollTop = Math.min(Math.max(box.scrollTop, bottom), next * rowHeight)
    select(items[next])
  }

  box.append(h('div', { role: 'rowgroup' }, h('div', { role: 'row', class: 'row head' }, titles)), body)
  box.addEventListener('scroll', () => { top = box.scrollTop; draw() }, { passive: true })
  box.addEventListener('keydown', key)
  body.addEventListener('click', e => {
    const { item } = e.target.closest('.row') ?? {}
    if (!item || getSelection().type === 'Range') return
    select(item)
    open(item)
  })
  new ResizeObserver(() => {
    height = box.clientHeight
    rowHeight = parseFloat(getComputedStyle(box).getPropertyValue('--row'))
    draw()
  }).observe(box)
  return { titles, draw, show(all) { items = all; draw() } }
}
