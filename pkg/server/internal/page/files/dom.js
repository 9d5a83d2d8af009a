// Everything that others chose is text: this is the only place where elements are made, and it knows no markup.

// Control and direction characters would hide or reorder what follows, and blank ones make two names look the same. They are
// shown as escapes, as the commands do.
const hidden = /(?![ \t\n])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/gu
const escapeOf = c => c.length > 1 ? '\\U' + c.codePointAt(0).toString(16).padStart(8, '0') : '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0')
export const visible = text => String(text).replace(hidden, escapeOf)
// brief is the beginning of a text. Long texts would make each drawing slow.
export const brief = (text, most = 200) => String(text).length > most ? String(text).slice(0, most) + '…' : String(text)
// line is visible text in one line.
export const line = text => visible(text).replace(/[\t\n]/g, c => c === '\n' ? '⏎' : '⇥')

// h returns an element. Properties that begin with "on" are listeners, and those that the element does not
// have are attributes.
export function h(tag, props, ...children) {
  const e = document.createElement(tag)
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value == null || value === false) continue
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value)
    else if (name === 'class') e.className = value
    else e.setAttribute(name, value === true ? '' : value)
  }
  e.append(...children.flat(Infinity).filter(c => c != null && c !== false).map(c => c instanceof Node ? c : visible(c)))
  return e
}

export const $ = id => document.getElementById(id)

// show replaces the content of an element if it differs, so that a selection and the focus stay.
export function show(e, ...children) {
  const made = h('div', null, ...children)
  const key = made.textContent + [...made.querySelectorAll('[class],[title]')].map(c => c.className + c.title).join()
  if (e.shown === key) return
  e.shown = key
  e.replaceChildren(...made.childNodes)
}

// set changes the text of an element if it differs.
export function set(e, text) {
  if (e.shown === text) return
  e.shown = text
  e.textContent = text
}

const units = [['d', 86400], ['h', 3600], ['m', 60]]
export function age(time, now = Date.now()) {
  const s = Math.max(0, Math.round((now - new Date(time)) / 1000))
  if (!time || Number.isNaN(s)) return '–'
  const [unit, size] = units.find(([, seconds]) => s >= 2 * seconds) ?? ['s', 1]
  return Math.floor(s / size) + unit
}

const clocks = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })
const days = new Intl.DateTimeFormat('en-CA')
export const clock = time => clocks.format(time)
export const day = time => days.format(time)
export const plural = (n, what) => `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`
