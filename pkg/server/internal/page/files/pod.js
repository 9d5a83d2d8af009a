// What a pod's row shows, as kubectl computes it. A view without spec and status has less.
import { brief } from './dom.js'

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
export const healths = { ok: ['●', 'healthy'], wait: ['◐', 'in progress'], bad: ['▲', 'unhealthy'], none: ['○', 'status not known'] }

function healthOf(row, pod) {
  if (/Completed|Succeeded/.test(row.status)) return 'ok'
  if (/Back|Err|Fail|Invalid|ExitCode|OOM|Evicted|Unknown/.test(row.status)) return 'bad'
  if (row.status === 'Running') return row.ready.split('/')[0] === row.ready.split('/')[1] ? 'ok' : 'wait'
  return row.status === 'Terminating' || pod.status?.containerStatuses?.length ? 'wait' : 'none'
}

export const keyOf = (source, { namespace, name }) => `${source}/${namespace}/${name}`

// rowOf returns the row of a pod. Its group is the namespace of its top owner.
export function rowOf(source, pod, owners = []) {
  const { metadata, spec = {}, status = {} } = pod
  const containers = status.containerStatuses ?? []
  const row = {
    key: keyOf(source, metadata), source, pod, namespace: metadata.namespace, name: metadata.name,
    status: reasonOf(pod), restarts: containers.reduce((n, c) => n + c.restartCount, 0),
    ready: `${containers.filter(c => c.ready).length}/${spec.containers?.length ?? containers.length}`,
    restarted: Math.max(0, ...containers.map(c => Date.parse(c.lastState?.terminated?.finishedAt) || 0)),
    created: Date.parse(created(pod)) || 0, ip: status.podIP ?? '',
  }
  row.health = healthOf(row, pod)
  const top = owners.at(-1)
  row.owner = top ? `${top.kind.toLowerCase()}/${top.name}` : 'no owner'
  row.group = top && top.kind !== 'Node' ? row.namespace : ''
  row.words = [row.namespace, row.name, row.status, source, row.ip, top ? row.owner : ''].join(' ').toLowerCase()
  return row
}

// fields returns the values of an object by their paths. The items of a list have their names.
function fields(value, path = '', found = new Map()) {
  if (value === null || typeof value !== 'object') return found.set(path, value)
  for (const [key, below] of Object.entries(value)) {
    fields(below, Array.isArray(value) ? `${path}[${below?.name ?? key}]` : path ? `${path}.${key}` : key, found)
  }
  return found
}

// ours are the fields that a source sets at each start.
const ours = /^metadata\.(annotations\.kubernetes\.io\/config\.(seen|hash)|uid|resourceVersion|creationTimestamp|generation)$/

// changes lists the fields that differ in two versions of a pod, at most 30.
export function changes(before, after) {
  const [was, is] = [fields(before), fields(after)]
  const paths = [...new Map([...was, ...is]).keys()].filter(path => was.get(path) !== is.get(path) && !ours.test(path))
  return paths.slice(0, 30).map(path => `${path}: ${brief(was.get(path) ?? '(none)')} → ${brief(is.get(path) ?? '(none)')}`)
}
