// The status: health and what is wrong first, then the sources, the manifests and the subscribers.
import { $, age, h, line, set, show } from './dom.js'

let lags = new Map() // the last lags of each subscriber
const samples = 30

export function statusText(s) {
  const problems = s.problems ?? []
  document.title = `${problems.length ? '▲ ' : ''}${line(s.nodeName)} · podconfigd`
  set($('node'), line(s.nodeName))
  show($('health'), problems.length ? h('strong', { class: 'is-bad' }, '▲ not healthy') : h('strong', { class: 'is-ok' }, '● healthy'))
  show($('facts'), [
    ['Revision', String(s.revision), 'The number of the newest update'], ['Up', age(s.startTime)], ['Pods', s.pods.toLocaleString('en')],
    ['Kubelet', s.kubelet && kubeletText(s.kubelet), 'The kubelet whose rules decide what a valid manifest is'],
    ['Runtime', runtimeText(s.runtime), 'The container runtime, which knows the status of static pods: --container-runtime-endpoint'],
    ['Stored', s.state ? (s.state.stored ? `${Math.ceil(s.state.bytes / 1024).toLocaleString('en')} KiB` : '▲ no') : 'in memory only', 'The pods and their history on disk: --state-dir'],
  ].filter(([, v]) => v).map(([k, v, title]) => h('div', { title }, h('dt', null, k), h('dd', null, line(v)))))
  show($('problems'), problems.map(p => h('li', null, h('a', { href: /manifest/.test(p) ? '#manifests-title' : '#sources-title' }, '▲ ', line(p)))))
  $('problems').hidden = !problems.length
  show($('sources'), s.sources.map(source))
  manifests(s)
  subscribers(s.subscribers)
}

// kubeletText says which kubelet's rules are followed, and how it was found.
const found = { flag: 'as configured', sandboxes: 'found by what runs', podsAPI: 'found by its Pods API', mirrorPods: 'found by its mirror pods', node: 'as the Node says', state: 'the rules of the last run' }
const kubeletText = k => found[k.source] ? `${k.version}, ${found[k.source]}` : `not known, rules of ${k.rules}`

const runtimeText = r => !r ? 'none' : r.healthy ? `${r.containers} containers` : '▲ does not answer'

function source(s) {
  const bad = s.degraded || !s.seen
  const where = s.file?.path ?? s.http?.url ?? s.api?.server ?? ''
  const state = s.degraded ? '▲ degraded' : s.seen ? '● ok' : s.restored ? '◐ restored' : '◐ waiting'
  return [
    h('tr', null, h('td', { class: 'id' }, line(s.name)), h('td', { class: bad ? 'is-bad' : 'is-ok' }, state),
      h('td', { class: 'num' }, s.pods.toLocaleString('en')), h('td', { class: 'num' }, age(s.lastChange))),
    h('tr', { class: 'below' }, h('td', { colspan: 4, class: 'what' }, h('div', { class: 'id muted' }, line(where)),
      s.lastError && h('p', { class: 'is-bad' }, line(s.lastError)), (s.fix ?? []).map(f => h('p', { class: 'fix' }, line(f))))),
  ]
}

const states = { Accepted: '●', Held: '◐', Shadowed: '◌', Rejected: '▲', Ignored: '·' }

function manifests(s) {
  const parts = s.sources.map(x => x.file ?? x.http).filter(Boolean)
  const all = parts.flatMap(p => p.manifests ?? [])
  const more = parts.flatMap(p => Object.entries(p.manifestsOmitted ?? {})).map(([state, n]) => `${n.toLocaleString('en')} more ${state}`)
  const wrong = all.filter(m => !['Accepted', 'Ignored'].includes(m.state) || m.warnings?.length)
  const good = all.filter(m => m.state === 'Accepted' && !m.warnings?.length)
  const ignored = all.filter(m => m.state === 'Ignored').length
  set($('manifest-count'), [`${good.length.toLocaleString('en')} accepted`, wrong.length && `${wrong.length} to look at`, ignored && `${ignored} ignored`, ...more].filter(Boolean).join(', '))
  show($('manifests'), wrong.map(m => manifest(m)))
  show($('accepted'), good.slice(0, 200).map(m => h('li', null, line(m.path ?? '–'), h('span', { class: 'muted' }, ` ${line(m.namespace)}/${line(m.name)}`))))
  $('all-accepted').hidden = !good.length
}

const faultLine = (fault, text, number) => number === fault.line
  ? h('mark', null, `▶${String(number).padStart(5)} │ `, line(text), '\n')
  : h('span', null, ` ${String(number).padStart(5)} │ `, line(text), '\n')

function manifest(m) {
  const pod = m.name ? `${m.namespace}/${m.name}` : ''
  return h('li', null,
    h('div', { class: 'top' }, h('span', { class: m.state === 'Accepted' ? 'is-wait' : 'is-bad' }, `${states[m.state] ?? '▲'} ${m.state}`),
      h('span', { class: 'id', title: line(m.path ?? '') }, line((m.path ?? pod ?? '–').split('/').at(-1))), h('span', { class: 'muted' }, line(pod))),
    m.message && h('p', null, line(m.message)), (m.warnings ?? []).map(w => h('p', null, 'warning: ', line(w))),
    m.fault && h('pre', { class: 'fault', tabindex: 0, 'aria-label': `Lines around line ${m.fault.line}` }, m.fault.lines.map((text, i) => faultLine(m.fault, text, m.fault.firstLine + i))),
    (m.fix ?? []).map(f => h('p', { class: 'fix' }, line(f))))
}

function subscribers(all) {
  lags = new Map(all.map(s => [s.id, [...lags.get(s.id) ?? [], s.lag].slice(-samples)]))
  set($('subscriber-count'), String(all.length))
  show($('subscribers'), all.slice(0, 200).map(s => h('tr', null,
    h('td', { class: 'id what' }, line(s.user ? `${s.user}@${s.address}` : s.address ?? `pid ${s.pid}`), h('div', { class: 'muted grow', title: line(s.userAgent ?? '') }, line(s.userAgent ?? ''))),
    h('td', null, line(s.mode)), h('td', { class: 'num' }, s.lag.toLocaleString('en')),
    h('td', { class: 'plot', title: `lag of the last ${samples * 2} s: ${lags.get(s.id).join(' ')}` }, h('span', { 'aria-hidden': 'true' }, plot(lags.get(s.id)))),
    h('td', { class: 'num' }, s.resets ?? 0), h('td', { class: 'num' }, age(s.since)))))
}

// plot draws lags with characters. The number beside it is the last one.
const plot = values => values.map(v => '▁▂▃▄▅▆▇█'[Math.round(7 * v / Math.max(1, ...values))]).join('')
