// The stream, which goes on from its revision, and the other interfaces.

let token = ''
export const useToken = text => { token = text }

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status }
}

// get returns the answer of a path. It is relative: the daemon can be behind the path of a gateway.
export async function get(path, accept = 'application/json', signal) {
  const headers = { Accept: accept }
  if (token) headers.Authorization = 'Bearer ' + token
  const answer = await fetch(path, { headers, signal, cache: 'no-store', credentials: 'same-origin', redirect: 'error' })
  if (answer.ok) return answer
  let message = answer.statusText
  try { message = (await answer.json()).message ?? message } catch { /* the answer is no object of the daemon */ }
  throw new Refused(answer.status, message)
}

export const json = async path => (await get(path)).json()

const pause = ms => new Promise(done => { setTimeout(done, ms) })
// sliceMillis is for how long lines are applied before the browser may draw.
const sliceMillis = 8

// lines yields the lines of a stream as objects.
async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = []
  let since = performance.now()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const parts = value.split('\n')
    rest.push(parts[0])
    for (let i = 1; i < parts.length; i++) {
      const whole = rest.join('')
      rest = [parts[i]]
      if (whole) yield JSON.parse(whole)
      if (performance.now() - since < sliceMillis) continue
      await pause(0)
      since = performance.now()
    }
  }
}

// follow applies each line of the stream, for ever. state gets what the connection is: "live", or why not.
export async function follow(apply, state) {
  let at = null
  for (let wait = 250; ; wait = Math.min(wait * 2, 5000)) {
    const abort = new AbortController()
    try {
      const query = at ? `?instance=${encodeURIComponent(at.instance)}&since=${at.revision}` : ''
      const answer = await get('v1alpha1/updates' + query, 'application/x-ndjson', abort.signal)
      if (!at) apply({ reset: true, op: 'BOOKMARK' })
      state('live')
      for await (const line of lines(answer.body)) {
        wait = 250
        apply(line)
        if (line.revision) at = { instance: line.instance, revision: line.revision }
      }
      state('ended')
    } catch (err) {
      if (err instanceof Refused && err.status === 410) at = null
      state(err instanceof Refused ? err : 'unreachable')
      if (err.status === 401 || err.status === 403) await new Promise(done => { retry = done })
    } finally {
      abort.abort()
    }
    await pause(wait)
  }
}

let retry = () => {}
export const again = () => retry()
