// threeds.js: the shopper's part of an EMV 3-D Secure authentication. The page of a merchant
// calls authenticate with the browser.url of POST /authentications.

import { checkOptions } from './options.js'
import { runOnce } from './tabs.js'
import { runFlow } from './flow.js'

export const version = VERSION

const running = new Map()

/** authenticate takes one authentication to its end. It rejects only for a bad argument. */
export async function authenticate(options) {
  const o = checkOptions(options)
  let promise = running.get(o.id)
  if (!promise) {
    promise = runOnce(o.id, () => runFlow(o)).then((status) => Object.freeze({ id: o.id, status }))
    running.set(o.id, promise)
    const forget = () => running.delete(o.id)
    promise.then(forget, forget)
  }
  return promise
}
