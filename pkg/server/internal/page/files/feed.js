// The stream, which goes on from its revision, and the other interfaces.

let token = ''
let retry = () => {}

// signIn connects again, with a token.
export function signIn(text) {
  token = text
  retry()
}

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status }
}

// get returns the answer of a path. It is relative: the daemon can be behind the path of a gateway.
export async function get(path, accept = 'application/json') {
  const headers = { Accept: accept }
  if (token) headers.Authorization = 'Bearer ' + token
  const answer = await fetch(path, { headers, cache: 'no-store', credentials: 'same-origin', redirect: 'error' })
  if (answer.ok) return answer
  let message = answer.statusText
  try { message = (await answer.json()).message ?? message } catch { /* the answer is no object of the daemon */ }
  throw new Refused(answer.status, message)
}

export const json = async path => (await get(path)).json()

const pause = ms => new Promise(done => { setTimeout(done, ms) })

// lines yields the lines of a stream as objects. It pauses after each part: so the browser may draw, and small parts that come one
// by one are read together, which costs least.
async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const whole = (rest + part.value).split('\n')
      rest = whole.pop()
      for (const text of whole.filter(Boolean)) yield JSON.parse(text)
      await pause(part.value.length < 16384 ? 50 : 0)
    }
  } finally {
    reader.cancel().catch(() => {}) // it has failed already
  }
}

// follow applies each line of the stream, for ever. state gets what the connection is: "live", or why not. owners gets whether the
// lines have the owners of pods.
export async function follow(apply, state, owners) {
  let at = null
  for (let wait = 250; ; wait = Math.min(wait * 2, 5000)) {
    try {
      const known = Boolean((await json('v1alpha1/status').catch(() => ({}))).owners)
      const since = at ? `&instance=${encodeURIComponent(at.instance)}&since=${at.revision}` : ''
      const answer = await get(`v1alpha1/updates?${known ? 'owners=true' : ''}${since}`, 'application/x-ndjson')
      owners(known)
      if (!at) apply({ reset: true, op: 'BOOKMARK' })
      state('live')
      for await (const line of lines(answer.body)) {
        wait = 250
        apply(line)
        if (line.reset) at = null // all pods are needed again
        if (line.revision) at = { instance: line.instance, revision: line.revision }
      }
      state('ended')
    } catch (err) {
      if (err instanceof Refused && err.status === 410) at = null
      state(err instanceof Refused ? err : 'unreachable')
      if (err.status === 401 || err.status === 403) await new Promise(done => { retry = done })
    }
    await pause(wait)
  }
}
