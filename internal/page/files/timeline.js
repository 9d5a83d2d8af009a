// The timeline: a lane for each source. What comes points up, what goes down, and what changes is in between.
import { $, clock, day, h, line, plural, set, show } from './dom.js'

const most = 20000 // marks that are kept, the newest 2,000 with what changed
const lane = 38
const gutter = 64
const steps = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 604800].map(s => s * 1000)
const signs = { ADD: '+', REMOVE: '−', DELETE: '×', UPDATE: '~', RECONCILE: '·', GAP: '?' }

export class Timeline {
  marks = []
  gaps = []
  span = 600e3
  end = 0 // 0: follows the clock
  first = Date.now()

  constructor(open) {
    this.open = open
    this.canvas = $('timeline')
    this.canvas.addEventListener('pointerdown', e => this.drag(e))
    this.canvas.addEventListener('wheel', e => this.wheel(e), { passive: false })
    this.canvas.addEventListener('keydown', e => this.key(e))
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement)
    for (const b of document.querySelectorAll('[data-span]')) {
      b.addEventListener('click', () => {
        this.end = 0
        this.zoomTo(b.dataset.span === 'all' ? Date.now() - this.first + 60e3 : Number(b.dataset.span))
        for (const other of document.querySelectorAll('[data-span]')) other.ariaPressed = other === b
      })
    }
    $('updates').addEventListener('click', e => { const m = this.listed?.[e.target.closest('[data-i]')?.dataset.i]; if (m) this.open(m) })
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw())
  }

  // add adds a mark, at most 20,000: {time, op, source, name, namespace, count, changes, file}.
  add(mark) {
    this.marks.push(mark)
    this.first = Math.min(this.first, mark.time)
    if (this.marks.length > most) this.marks.splice(0, most / 10)
    const old = this.marks[this.marks.length - most / 10]
    if (old) old.changes = old.names = old.file = undefined
  }

  // past adds older marks in front.
  past(marks) {
    this.marks = [...marks, ...this.marks].slice(-most)
    this.first = Math.min(this.first, this.marks[0]?.time ?? this.first)
    this.draw()
  }

  window() {
    const end = this.end || Date.now()
    return [end - this.span, end]
  }

  zoomTo(span, around = 1) {
    const [from, to] = this.window()
    const at = from + (to - from) * around
    this.span = Math.min(Math.max(span, 10e3), 31 * 86400e3)
    if (this.end) this.move(at + this.span * (1 - around))
    this.draw()
  }

  move(end) {
    this.end = end >= Date.now() ? 0 : Math.max(end, this.first)
    this.draw()
  }

  drag(e) {
    const { canvas } = this
    const [from, to] = this.window()
    const x = e.clientX
    let moved = false
    const move = m => {
      moved ||= Math.abs(m.clientX - x) > 3
      if (moved) this.move(to - (m.clientX - x) * this.span / (canvas.clientWidth - gutter))
    }
    canvas.setPointerCapture(e.pointerId)
    canvas.addEventListener('pointermove', move)
    canvas.addEventListener('lostpointercapture', () => {
      canvas.removeEventListener('pointermove', move)
      if (!moved) this.pick(from, x - canvas.getBoundingClientRect().left, e.clientY - canvas.getBoundingClientRect().top)
    }, { once: true })
  }

  // pick opens the mark that is nearest to a click.
  pick(from, x, y) {
    const time = from + (x - gutter) * this.span / (this.canvas.clientWidth - gutter)
    const source = this.lanes[Math.floor(y / lane)]
    const near = this.marks.filter(m => m.source === source && Math.abs(m.time - time) < this.span * 8 / this.canvas.clientWidth)
    if (near.length) this.open(near.reduce((a, b) => Math.abs(a.time - time) <= Math.abs(b.time - time) ? a : b))
  }

  wheel(e) {
    const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey
    if (!sideways && !e.ctrlKey && !e.metaKey) return // scrolls the page
    e.preventDefault()
    if (sideways) this.move(this.window()[1] + (e.deltaX || e.deltaY) * this.span / 800)
    else this.zoomTo(this.span * Math.exp(e.deltaY / 200), (e.offsetX - gutter) / (this.canvas.clientWidth - gutter))
  }

  key(e) {
    const act = {
      ArrowLeft: () => this.move(this.window()[1] - this.span / 8), ArrowRight: () => this.move(this.window()[1] + this.span / 8),
      '+': () => this.zoomTo(this.span / 1.5), '-': () => this.zoomTo(this.span * 1.5), End: () => this.move(Infinity),
    }[e.key]
    if (!act) return
    e.preventDefault()
    act()
  }

  draw() {
    const [from, to] = this.window()
    const sighted = this.marks.filter(m => m.time >= from && m.time <= to)
    this.lanes = [...new Set([...this.sources ?? [], ...sighted.map(m => m.source)])].filter(Boolean)
    const { canvas, lanes } = this
    const width = canvas.parentElement.clientWidth
    const height = Math.max(1, lanes.length) * lane + 18
    const scale = devicePixelRatio || 1
    canvas.width = width * scale
    canvas.height = height * scale
    canvas.style.height = height + 'px'
    const c = canvas.getContext('2d')
    const style = getComputedStyle(canvas)
    const ink = name => style.getPropertyValue('--' + name)
    const x = t => gutter + (t - from) / (to - from) * (width - gutter)
    c.scale(scale, scale)
    c.font = '11px ' + style.fontFamily
    c.textBaseline = 'middle'
    this.axis(c, from, to, x, height, ink)
    for (const gap of this.gaps) this.gap(c, x(gap.from), x(gap.to ?? Date.now()), height - 18, ink)
    lanes.forEach((source, i) => {
      c.fillStyle = ink('muted')
      c.fillText(line(source).slice(0, 10), 0, i * lane + lane / 2)
      c.fillStyle = ink('line')
      c.fillRect(gutter, Math.round(i * lane + lane / 2), width - gutter, 1)
      this.bars(c, sighted.filter(m => m.source === source), x, i * lane + lane / 2, ink)
    })
    this.list(sighted, from, to)
  }

  axis(c, from, to, x, height, ink) {
    const step = steps.find(s => (to - from) / s < 8) ?? steps.at(-1)
    const offset = new Date(from).getTimezoneOffset() * 60e3
    for (let t = Math.ceil((from - offset) / step) * step + offset; t < to; t += step) {
      c.fillStyle = ink('line')
      c.fillRect(Math.round(x(t)), 0, 1, height - 16)
      c.fillStyle = ink('muted')
      const text = step >= 86400e3 ? day(t).slice(5) : step < 60e3 ? clock(t) : clock(t).slice(0, 5)
      c.fillText(text, x(t) - c.measureText(text).width / 2, height - 7)
    }
  }

  gap(c, from, to, height, ink) {
    c.strokeStyle = ink('bad')
    c.globalAlpha = 0.55
    c.beginPath()
    to = Math.max(to, from + 3)
    for (let at = from - height; at < to; at += 6) { // hatched
      const start = Math.max(at, from)
      const end = Math.min(at + height, to)
      if (end > start && end > gutter) { c.moveTo(start, height - (start - at)); c.lineTo(end, height - (end - at)) }
    }
    c.stroke()
    c.strokeRect(from, 0.5, to - from, height - 1)
    c.globalAlpha = 1
  }

  // bars draws the marks of a lane, those of 4 pixels as one bar.
  bars(c, marks, x, middle, ink) {
    const bins = new Map()
    for (const m of marks) {
      const at = Math.round(x(m.time) / 4) * 4
      const bin = bins.get(at) ?? {}
      bins.set(at, bin)
      bin[m.op] = (bin[m.op] ?? 0) + (m.count || 1)
    }
    const size = n => n ? Math.min(lane / 2 - 2, 3 + 3 * Math.log2(n)) : 0
    for (const [at, bin] of bins) {
      const up = size(bin.ADD)
      const down = size((bin.REMOVE ?? 0) + (bin.DELETE ?? 0))
      c.fillStyle = ink('good')
      c.fillRect(at - 1.5, middle - up, 3, up)
      c.fillStyle = ink('bad')
      c.fillRect(at - 1.5, middle + 1, 3, down)
      const change = Math.min(8, 2 + size(bin.UPDATE) / 2)
      c.fillStyle = ink('accent')
      if (bin.UPDATE) { c.beginPath(); c.moveTo(at - change, middle); c.lineTo(at, middle - change); c.lineTo(at + change, middle); c.lineTo(at, middle + change); c.fill() }
      c.fillStyle = ink('muted')
      if (bin.RECONCILE) { c.beginPath(); c.arc(at, middle + 0.5, Math.min(5, 1.5 + size(bin.RECONCILE) / 4), 0, 7); c.fill() }
    }
  }

  // list has the newest updates in sight: what the plot shows, for everybody.
  list(sighted, from, to) {
    const gaps = this.gaps.filter(g => g.from <= to && (g.to ?? to) >= from).length
    const counts = Object.entries(Object.groupBy(sighted, m => m.op)).map(([op, all]) => `${op} ${all.reduce((n, m) => n + (m.count || 1), 0)}`).join(', ')
    set($('timeline-sum'), `${day(from) === day(to) ? '' : day(from) + ' '}${clock(from)} – ${clock(to)}: ${counts || 'no updates'}${gaps ? ', ' + plural(gaps, 'gap') : ''}`)
    this.canvas.setAttribute('aria-label', `Timeline, ${$('timeline-sum').textContent}. The updates are in the table below.`)
    this.listed = sighted.slice(-100).reverse()
    show($('updates'), this.listed.map((m, i) => h('tr', { 'data-i': i },
      h('td', { class: 'num' }, clock(m.time)), h('td', { class: 'op-' + m.op }, `${signs[m.op] ?? ''} ${m.op}`), h('td', null, line(m.source ?? '')),
      h('td', { class: 'id' }, m.name ? h('button', { type: 'button', class: 'link' }, line(`${m.namespace}/${m.name}`)) : m.count ? plural(m.count, 'pod') : ''),
      h('td', { class: 'what' }, line(m.changes?.[0] ?? m.message ?? ''), m.changes?.length > 1 ? ` and ${m.changes.length - 1} more` : ''))))
  }
}
