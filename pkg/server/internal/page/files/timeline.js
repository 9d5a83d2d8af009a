// The timeline: a lane for each source. What comes points up, what goes down, and what changes is in between.
import { $, clock, day, line, plural, set } from './dom.js'
import { makeGrid } from './grid.js'

const most = 20000 // marks that are kept, the newest 2,000 with what changed
const lane = 38
const gutter = 64
const foot = 18
const steps = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 604800].map(s => s * 1000)
const signs = { ADD: '+', REMOVE: '−', DELETE: '×', UPDATE: '~', RECONCILE: '·', RESTART: '↻', 'FIRST SET': '·' }
// kindOf is the operation of a mark. After a start, the first set of a source that changes nothing is an ADD without pods.
const kindOf = m => !m.name ? 'FIRST SET' : m.restart ? 'RESTART' : m.op
const columns = [
  { id: 'time', title: 'Time', text: m => clock(m.time) },
  { id: 'op', title: 'Update', text: m => `${signs[kindOf(m)] ?? '?'} ${kindOf(m)}`, look: m => 'op-' + kindOf(m) },
  { id: 'source', title: 'Source' },
  { id: 'pod', title: 'Pod', text: m => m.name ? `${m.namespace}/${m.name}` : '–' },
  { id: 'changed', title: 'Changed', text: m => m.name ? m.changes?.join('; ') ?? '' : 'nothing changed' },
]

const canvas = $('timeline')
let open = null
export const onOpen = f => { open = f }

const list = makeGrid($('updates'), columns, mark => open(mark))
// marks are the changes of pods: {time, op, source, revision, namespace, name, pod, changes, file}, the newest last.
let marks = []
let gaps = []
let starts = [] // when podconfigd started: {time, exact}
let lost = null // the gap that has not ended
let sources = []
let lanes = new Map() // the bars of each source in sight, by pixel: how often each operation happened
let span = 600e3
let end = 0 // 0: follows the clock
let from = 0 // what is in sight
let to = 0
let width = 0
let dragged = 0

// add adds a mark at the end. An edit of a static pod is a REMOVE and an ADD: the list has only the ADD.
export function add(mark) {
  mark.restart = mark.op === 'RECONCILE' && (mark.changes ?? []).some(c => /restartCount: (\d+|\(none\)) → [1-9]/.test(c))
  const before = mark.op === 'ADD' && marks.slice(-most / 10).findLast(m => m.pod === mark.pod)
  if (before?.op === 'REMOVE' && mark.time - before.time < 1000) before.replaced = true
  marks.push(mark)
  if (marks.length > most) marks.splice(0, most / 10)
  const old = marks.at(-most / 10)
  if (old) old.changes = old.file = undefined
}

// addPast adds what happened before the page was opened.
export function addPast(records) {
  gaps.push(...records.filter(r => r.gap).map(r => ({ from: r.time, to: r.time })))
  starts.push(...records.filter(r => !r.gap && !r.name).map(r => ({ time: r.time })))
  marks = [...records.filter(r => !r.gap), ...marks].slice(-most)
  draw()
}

// seen returns the newest changes of a pod.
export const seen = pod => marks.filter(m => m.pod === pod).slice(-50).reverse()

export const show = names => { sources = names }

// started notes when podconfigd started.
export function started(time) {
  if (time && !starts.some(s => s.exact && s.time === time)) starts = [...starts, { time, exact: true }].slice(-most)
}

// connected begins a gap, or ends it.
export function connected(live) {
  if (live && lost) lost.to = Date.now()
  if (!live && !lost) gaps = [...gaps, { from: Date.now() }].slice(-100)
  lost = live ? null : lost ?? gaps.at(-1)
}

// x returns the pixel of a time, and timeAt the time of a pixel.
const x = time => gutter + (time - from) / span * (width - gutter)
const timeAt = pixel => from + (pixel - gutter) / (width - gutter) * span
const first = () => marks[0]?.time ?? Date.now()

// zoom changes the length of the period. The time around stays where it is.
function zoom(length, around = to) {
  length = Math.min(Math.max(length, 10e3), 31 * 86400e3)
  if (end) end = around + (to - around) * length / span
  span = length
  draw()
}

function move(time) {
  end = time >= Date.now() ? 0 : Math.max(time, first())
  draw()
}

function drag(pixels) {
  dragged += Math.abs(pixels)
  move(to - pixels * span / (width - gutter))
}

// pick opens the mark that is nearest to a click.
function pick(pixel, y) {
  const source = [...lanes.keys()][Math.floor(y / lane)]
  const far = m => Math.abs(x(m.time) - pixel)
  const near = marks.filter(m => m.source === source && far(m) < 8)
  if (near.length) open(near.reduce((a, b) => far(a) <= far(b) ? a : b))
}

function wheel(e) {
  const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey
  if (!sideways && !e.ctrlKey && !e.metaKey) return // scrolls the page
  e.preventDefault()
  if (sideways) drag(-e.deltaX || -e.deltaY)
  else zoom(span * Math.exp(e.deltaY / 200), timeAt(e.offsetX))
}

const keys = {
  ArrowLeft: () => move(to - span / 8),
  ArrowRight: () => move(to + span / 8),
  '+': () => zoom(span / 1.5),
  '-': () => zoom(span * 1.5),
  End: () => move(Infinity),
}

canvas.addEventListener('pointerdown', e => { canvas.setPointerCapture(e.pointerId); dragged = 0 })
canvas.addEventListener('pointermove', e => { if (e.buttons) drag(e.movementX) })
canvas.addEventListener('click', e => { if (dragged < 4) pick(e.offsetX, e.offsetY) })
canvas.addEventListener('wheel', wheel, { passive: false })
canvas.addEventListener('keydown', e => { if (keys[e.key]) { e.preventDefault(); keys[e.key]() } })
new ResizeObserver(([box]) => { width = box.contentRect.width; draw() }).observe(canvas.parentElement)
const periods = document.querySelectorAll('[data-span]')
for (const button of periods) {
  button.addEventListener('click', () => {
    for (const other of periods) other.ariaPressed = other === button
    end = 0
    zoom(Number(button.dataset.span) || Date.now() - first() + 60e3)
  })
}

export function draw() {
  to = end || Date.now()
  from = to - span
  const sighted = marks.filter(m => m.time >= from && m.time <= to)
  const counts = {}
  lanes = new Map(sources.map(source => [source, {}]))
  for (const m of sighted) {
    const bars = lanes.get(m.source) ?? lanes.set(m.source, {}).get(m.source)
    for (const sum of [counts, bars[Math.round(x(m.time) / 4) * 4] ??= {}]) sum[kindOf(m)] = (sum[kindOf(m)] ?? 0) + 1 // those of 4 pixels are one bar
  }
  plot()
  const missing = gaps.filter(g => g.from <= to && (g.to ?? to) >= from).length
  const sums = Object.entries(counts).map(([op, n]) => `${op} ${n.toLocaleString('en')}`)
  if (missing) sums.push(plural(missing, 'gap'))
  const begun = startsIn(from, to).length
  if (begun) sums.push(plural(begun, 'start') + ' of podconfigd')
  const date = day(from) === day(to) ? '' : day(from) + ' '
  set($('timeline-sum'), `${date}${clock(from)} – ${clock(to)}: ${sums.join(', ') || 'no updates'}`)
  list.show(sighted.filter(m => !m.replaced).reverse())
}

// startsIn returns the starts in a period. Of a start before the page was opened, the history has only the first sets of the
// sources. Those within five seconds are of one start.
const startsIn = (from, to) => starts.toSorted((a, b) => a.time - b.time)
  .filter((s, i, all) => s.time >= from && s.time <= to && (s.exact || !(s.time - all[i - 1]?.time < 5000))).map(s => s.time)

function plot() {
  const style = getComputedStyle(canvas)
  const ink = name => style.getPropertyValue('--' + name)
  const inks = { line: ink('line'), muted: ink('muted'), good: ink('good'), bad: ink('bad'), accent: ink('accent'), wait: ink('wait') }
  const height = Math.max(1, lanes.size) * lane
  const scale = devicePixelRatio || 1
  canvas.width = width * scale // empties the canvas
  canvas.height = (height + foot) * scale
  canvas.style.height = height + foot + 'px'
  const c = canvas.getContext('2d')
  c.scale(scale, scale)
  c.font = '11px ' + style.fontFamily
  c.textBaseline = 'middle'
  c.textAlign = 'center'
  drawAxis(c, height, inks)
  for (const gap of gaps) drawGap(c, x(gap.from), x(gap.to ?? Date.now()), height, inks)
  for (const start of startsIn(from, to)) {
    for (let y = 0; y < height; y += 6) box(c, inks.wait, Math.round(x(start)) - 1, y, 2, 4)
  }
  const names = [...lanes.keys()]
  names.forEach((source, i) => {
    const middle = (i + 0.5) * lane
    box(c, inks.line, gutter, middle, width - gutter, 1)
    for (const [at, bar] of Object.entries(lanes.get(source))) drawBar(c, bar, Number(at), middle, inks)
  })
  c.textAlign = 'left'
  names.forEach((source, i) => write(c, inks.muted, line(source ?? '').slice(0, 10), 0, (i + 0.5) * lane))
}

const box = (c, ink, ...sides) => { c.fillStyle = ink; c.fillRect(...sides) }
const write = (c, ink, ...text) => { c.fillStyle = ink; c.fillText(...text) }

function drawAxis(c, height, inks) {
  const step = steps.find(s => span / s < width / 150) ?? steps.at(-1)
  const offset = new Date(from).getTimezoneOffset() * 60e3
  for (let t = Math.ceil((from - offset) / step) * step + offset; t < to; t += step) {
    const at = Math.round(x(t))
    box(c, inks.line, at, 0, 1, height)
    write(c, inks.muted, step >= 86400e3 ? day(t).slice(5) : step < 60e3 ? clock(t) : clock(t).slice(0, 5), Math.min(at, width - 24), height + foot / 2 + 2)
  }
}

// drawGap draws stripes.
function drawGap(c, left, right, height, inks) {
  left = Math.max(left, gutter)
  if (right < left) return
  c.globalAlpha = 0.5
  for (let y = 2; y < height; y += 4) box(c, inks.bad, left, y, Math.max(right - left, 3), 1)
  c.globalAlpha = 1
}

// drawBar draws how often each operation happened.
function drawBar(c, bar, at, middle, inks) {
  const size = n => n ? Math.min(lane / 2 - 2, 3 + 3 * Math.log2(n)) : 0
  const up = size(bar.ADD)
  box(c, inks.good, at - 1.5, middle - up, 3, up)
  box(c, inks.bad, at - 1.5, middle + 1, 3, size((bar.REMOVE ?? 0) + (bar.DELETE ?? 0)))
  if (bar.UPDATE) write(c, inks.accent, '◆', at, middle)
  if (bar.RESTART) write(c, inks.wait, '↻', at, middle)
  else if (bar.RECONCILE || bar['FIRST SET']) write(c, inks.muted, '•', at, middle)
}
