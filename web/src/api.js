import frames from '../frames.json'

/** An End stops the flow with the status that authenticate resolves with. */
export class End extends Error {
  constructor(status) {
    super(status)
    this.status = status
  }
}

const pause = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    function done() {
      clearTimeout(timer)
      removeEventListener('online', done)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    addEventListener('online', done)
    signal?.addEventListener('abort', done)
  })

/**
 * newAPI returns the steps of one authentication. Each is tried again for 60 s. onTrouble is
 * called with true when the server does not answer, and with false when it does again.
 */
export function newAPI(o, onTrouble) {
  const headers = { Authorization: 'Bearer ' + o.token }
  if (o.locale) headers['Threeds-Locale'] = o.locale
  if (o.binding) headers['Threeds-Binding'] = o.binding

  async function call(path, init, seconds, signal) {
    let wait = 500
    let since = 0
    for (;;) {
      const stop = new AbortController()
      const timer = setTimeout(() => stop.abort(), seconds * 1000)
      const abort = () => stop.abort()
      signal?.addEventListener('abort', abort)
      // A page that comes back from the cache of the browser may wait for an answer that was lost.
      const restore = (event) => event.persisted && abort()
      addEventListener('pageshow', restore)
      try {
        const answer = await fetch(o.base + path(!!since), {
          ...init, headers: { ...headers, ...init?.headers }, signal: stop.signal, cache: 'no-store',
          credentials: o.hosted ? 'same-origin' : 'omit', referrerPolicy: 'no-referrer'
        })
        if (answer.status == 403) {
          console.error('threeds: ' + await answer.text())
          throw new End('unreachable')
        }
        if (answer.status == 404) throw new End('expired')
        if (answer.status == 409) throw new End('elsewhere')
        if (answer.ok) {
          const view = await answer.json()
          onTrouble(false)
          return view
        }
      } catch (error) {
        if (error instanceof End) throw error
      } finally {
        clearTimeout(timer)
        removeEventListener('pageshow', restore)
        signal?.removeEventListener('abort', abort)
      }
      if (signal?.aborted) return null
      since ||= Date.now()
      if (Date.now() - since >= frames.seconds.unreachable * 1000) throw new End('unreachable')
      onTrouble(true)
      await pause(wait, signal)
      wait = Math.min(wait * 2, 8000)
    }
  }

  const post = (path, body = {}) =>
    call(() => path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }, 20)
  return {
    begin: (body) => post('begin', body),
    // After trouble the first answer comes at once, so that the shopper sees that the connection is back. A server that has
    // no place for a request to wait in says how long to pause.
    state: async (after, signal) => {
      const view = await call((isRetry) => 'state?wait=' + (isRetry ? 0 : 20) + '&after=' + after, null, 30, signal)
      if (view?.pause) await pause(view.pause * 1000, signal)
      return view
    },
    spc: (told) => post('spc', told),
    confirm: () => post('confirm'),
    cancel: () => post('cancel')
  }
}
