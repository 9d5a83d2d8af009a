// What a pod's row shows, as kubectl computes it. A view without spec and status has less.

const created = pod => pod.metadata.annotations?.['kubernetes.io/config.seen'] ?? pod.metadata.creationTimestamp

function reasonOf(pod) {
  const { status = {}, metadata } = pod
  if (metadata.deletionTimestamp) return 'Terminating'
  const inits = status.initContainerStatuses ?? []
  for (const c of inits) {
    const { waiting, terminated } = c.state ?? {}
    if (terminated?.exitCode === 0 || c.started) continue
    if (terminated) return 'Init:' + (terminated.reason || 'ExitCode:' + terminated.exitCode)
    if (waiting?.reason && waiting.reason !== 'PodInitializing') return 'Init:' + waiting.reason
    return `Init:${inits.indexOf(c)}/${inits.length}`
  }
  for (const c of [...status.containerStatuses ?? []].reverse()) {
    const { waiting, terminated } = c.state ?? {}
    if (waiting?.reason) return waiting.reason
    if (terminated) return terminated.reason || 'ExitCode:' + terminated.exitCode
  }
  return status.reason || status.phase || 'Unknown'
}

// The marks and the words of health: no state is shown by its colour alone.
export const healths = { ok: ['●', 'healthy'], wait: ['◐', 'in progress'], bad: ['▲', 'unhealthy'], none: ['○', 'not known'] }

function healthOf(row, pod) {
  if (/Completed|Succeeded/.test(row.status)) return 'ok'
  if (/Back|Err|Fail|Invalid|ExitCode|OOM|Evicted|Unknown/.test(row.status)) return 'bad'
  if (row.status === 'Terminating') return 'wait'
  if (row.status === 'Running') return row.ready.split('/')[0] === row.ready.split('/')[1] ? 'ok' : 'wait'
  return pod.status?.containerStatuses?.length ? 'wait' : 'none'
}

export function rowOf(source, pod) {
  const { metadata, spec = {}, status = {} } = pod
  const containers = status.containerStatuses ?? []
  const row = {
    key: source + '/' + metadata.uid, source, pod, namespace: metadata.namespace, name: metadata.name,
    status: reasonOf(pod), restarts: containers.reduce((n, c) => n + c.restartCount, 0),
    ready: `${containers.filter(c => c.ready).length}/${spec.containers?.length ?? containers.length}`,
    created: Date.parse(created(pod)) || 0, ip: status.podIP ?? '',
  }
  row.health = healthOf(row, pod)
  row.words = [row.namespace, row.name, row.status, source, row.ip].join(' ').toLowerCase()
  return row
}

// diff lists the fields that differ in two objects, at most limit.
export function diff(a, b, limit = 30, path = '', out = []) {
  if (a === b || out.length >= limit) return out
  const plain = v => v === null || typeof v !== 'object'
  if (plain(a) || plain(b)) {
    if (a !== undefined || b !== undefined) out.push({ path: path.slice(1), was: brief(a), is: brief(b) })
    return out
  }
  const named = Array.isArray(a) && Array.isArray(b) && [...a, ...b].every(v => v?.name !== undefined)
  const [from, to] = named ? [byName(a), byName(b)] : [a, b]
  for (const key of new Set([...Object.keys(from), ...Object.keys(to)])) {
    diff(from[key], to[key], limit, named || Array.isArray(a) ? `${path}[${key}]` : `${path}.${key}`, out)
  }
  return out
}

const byName = list => Object.fromEntries(list.map(v => [v.name, v]))

function brief(v) {
  if (v === undefined) return '(none)'
  const text = typeof v === 'string' ? v : JSON.stringify(v)
  return text.length > 200 ? text.slice(0, 200) + '…' : text
}

// ours are the annotations that a source sets at each start.
const ours = /^metadata\.(annotations\.kubernetes\.io\/config\.(seen|hash)|uid|resourceVersion|creationTimestamp|generation)$/
export const changes = (was, is) => diff(was, is).filter(d => !ours.test(d.path)).map(d => `${d.path}: ${d.was} → ${d.is}`)
