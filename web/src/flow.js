import frames from '../frames.json'
import { End, newAPI } from './api.js'
import { collectData } from './data.js'
import { openFrame } from './frame.js'
import { openUI } from './ui.js'
import { confirmPayment, hasSPC } from './spc.js'
import { dropBinding, loadBinding } from './tabs.js'

const steps = ['begin', 'method', 'authentication', 'challenge', 'result', 'end']

/** runFlow takes an authentication to its end in this page, and returns the status of that end. */
export async function runFlow(o) {
  const stop = new AbortController()
  const ui = openUI(o, () => stop.abort())
  o.binding = o.hosted ? '' : loadBinding(o.id)
  const api = newAPI(o, ui.showTrouble)
  const abort = () => stop.abort()
  o.signal?.addEventListener('abort', abort)
  if (o.signal?.aborted) abort()

  let told = -1
  const tell = (step) => {
    const i = steps.indexOf(step)
    if (i <= told) return
    told = i
    try {
      o.onStep?.(step)
    } catch (error) {
      // A callback that throws changes nothing.
      console.error(error)
    }
  }
  let status
  try {
    status = await follow(o, api, ui, stop.signal, tell)
  } catch (error) {
    if (!(error instanceof End)) console.error(error)
    status = error instanceof End ? error.status : 'unreachable'
    if (status == 'expired') dropBinding(o.id)
  }
  o.signal?.removeEventListener('abort', abort)
  ui.close()
  tell('end')
  return status
}

/** aborted resolves when a signal is aborted. */
const aborted = (signal) => new Promise((resolve) => {
  if (signal.aborted) resolve()
  signal.addEventListener('abort', () => resolve())
})

async function follow(o, api, ui, signal, tell) {
  const cancel = async () => {
    ui.showWaiting()
    const view = await api.cancel()
    return view.end || 'cancelled'
  }
  tell('begin')
  const method = openFrame(o.base, ui, 'method')
  const [accept, spc] = await Promise.all([method.accept, hasSPC()])
  const begun = api.begin({
    data: { ...collectData(o.size), browserAcceptHeader: accept }, spc
  })
  let view = await Promise.race([begun, aborted(signal)])
  if (!view) {
    begun.then(api.cancel).catch(() => {})
    return 'cancelled'
  }
  ui.showLooks(view)
  let challenge
  let deadline = Infinity
  let hasMethod = false
  let hasAsked = false
  for (;;) {
    if (view.step != 'begin' && view.step != 'confirm') tell(view.step == 'end' ? 'result' : view.step)
    if (view.step == 'method' && view.method && !hasMethod) {
      hasMethod = true
      method.show({ kind: 'method', url: view.method.url, fields: { threeDSMethodData: view.method.data } })
    }
    if (view.step == 'spc' && view.spc && !hasAsked) {
      hasAsked = true
      const told = await Promise.race([confirmPayment(view.spc, ui, signal), aborted(signal)])
      if (!told) return cancel()
      ui.showWaiting()
      view = await api.spc(told)
      deadline = Date.now() + frames.seconds.challenge * 1000
      continue
    }
    if (view.step == 'challenge' && view.challenge && !challenge) {
      challenge = ui.showChallenge(view)
      deadline = Date.now() + frames.seconds.challenge * 1000
    }
    if (view.step == 'confirm') {
      tell('result')
      challenge = null
      await ui.showInfo(view.info, signal)
      if (signal.aborted) return cancel()
      view = await api.confirm()
      if (view.step == 'confirm') return 'pending'
      continue
    }
    if (view.step == 'end') return view.end
    if (Date.now() > deadline) return 'pending'
    view = await api.state(view.version, signal)
    if (!view || signal.aborted) return cancel()
  }
}
