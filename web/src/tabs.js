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

async function withLock(id, channel, run) {
  let locks
  try {
    locks = navigator.locks
    await locks.query()
  } catch {
    locks = null
  }
  if (!locks || !channel) return run()
  const waiting = new AbortController()
  const ended = new Promise((resolve) => {
    channel.onmessage = (event) => resolve((waiting.status = String(event.data)))
  })
  const first = await locks.request(prefix + id, { ifAvailable: true }, async (lock) => lock && { status: await run() })
  if (first) return first.status
  const turn = locks.request(prefix + id, { signal: waiting.signal }, async () => {
    // The status of the other tab may arrive a moment after its lock.
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 300))])
    return waiting.status || run()
  })
  turn.catch(() => {})
  const status = await Promise.race([ended, turn])
  waiting.abort()
  return status
}

/** loadBinding returns the second secret that this tab has for an authentication, or makes it. */
export function loadBinding(id) {
  try {
    const kept = sessionStorage.getItem(prefix + id)
    if (kept) return kept
  } catch {
    // Storage is refused: the secret stays in memory.
  }
  const bytes = crypto.getRandomValues(new Uint8Array(32))
  const binding = btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '')
  try {
    sessionStorage.setItem(prefix + id, binding)
  } catch {
    // The same as above.
  }
  return binding
}

/** dropBinding forgets the second secret of an authentication that has ended. */
export function dropBinding(id) {
  try {
    sessionStorage.removeItem(prefix + id)
  } catch {
    // There was nothing to forget.
  }
}
