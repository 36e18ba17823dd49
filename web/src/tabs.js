// One tab of a browser takes an authentication to its end. The others wait for that end.

const prefix = 'threeds.'

/**
 * runOnce calls run if no other tab of this browser runs the authentication. Otherwise it
 * waits for the status that the other tab ends with. If that tab closes before, it calls run.
 */
export async function runOnce(id, run) {
  const channel = openChannel(id)
  try {
    return await withLock(id, channel, async () => {
      const status = await run()
      channel?.postMessage(status)
      return status
    })
  } finally {
    channel?.close()
  }
}

function openChannel(id) {
  try {
    return new BroadcastChannel(prefix + id)
  } catch {
    return null
  }
}

/** withLock runs run while this tab has the lock of an authentication, or returns the status that another tab tells. */
async function withLock(id, channel, run) {
  let locks
  try {
    locks = navigator.locks
    await locks.query()
  } catch {
    locks = null
  }
  if (!locks || !channel) return run()
  let running
  let leave
  return new Promise((resolve) => {
    const end = (status) => {
      removeEventListener('pagehide', hide)
      removeEventListener('pageshow', restore)
      leave()
      resolve(status)
    }
    const start = () => (running ??= run().finally(() => end(running)))
    const ask = (isPatient) => {
      const stop = new AbortController()
      const left = new Promise((resolve) => {
        leave = () => {
          stop.abort()
          resolve()
        }
      })
      locks.request(prefix + id, isPatient ? { signal: stop.signal } : { ifAvailable: true }, async (lock) => {
        if (!lock) return ask(true)
        // The status of the other tab may arrive a moment after its lock.
        if (isPatient && !running) await new Promise((resolve) => setTimeout(resolve, 300))
        if (!stop.signal.aborted) await Promise.race([start(), left])
      }).catch(() => stop.signal.aborted || start())
    }
    // A page in the cache of the browser has no lock and waits for none. Chromium would keep it from other tabs. WebKit takes
    // it away, and the promise of the request never settles.
    const hide = () => leave()
    const restore = (event) => event.persisted && ask(true)
    addEventListener('pagehide', hide)
    addEventListener('pageshow', restore)
    channel.onmessage = (event) => running || end(String(event.data))
    ask(false)
  })
}

/** bindings are the second secrets of this page, for where storage is refused. */
const bindings = new Map()

/**
 * loadBinding returns the second secret that this tab has for an authentication, or makes it. It stays after the end, for
 * the server tells the end to that secret alone, also after a reload.
 */
export function loadBinding(id) {
  const key = prefix + id
  try {
    const kept = sessionStorage.getItem(key)
    if (kept) return kept
  } catch {
    // Storage is refused: the secret stays in memory.
  }
  if (bindings.has(id)) return bindings.get(id)
  const bytes = crypto.getRandomValues(new Uint8Array(32))
  const binding = btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '')
  bindings.set(id, binding)
  try {
    sessionStorage.setItem(key, binding)
  } catch {
    // The same as above.
  }
  return binding
}

/** dropBinding forgets the second secret of an authentication that the server no longer knows. */
export function dropBinding(id) {
  bindings.delete(id)
  try {
    sessionStorage.removeItem(prefix + id)
  } catch {
    // There was nothing to forget.
  }
}
