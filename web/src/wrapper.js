// The wrapper document of B: it shows a page of the bank in a frame of its own, so that the
// page of the merchant needs no more in its Content-Security-Policy than B.

import frames from '../frames.json'
import { newAPI } from './api.js'
import { postForm } from './form.js'

const tell = (message) => parent.postMessage(message, '*')

function show({ kind, url, fields, allow, popups }) {
  const frame = document.createElement('iframe')
  frame.name = 'bank'
  frame.title = kind
  frame.sandbox = frames.sandbox[kind + (popups ? 'Before231' : '')]
  if (allow) frame.allow = allow
  document.body.replaceChildren(frame)
  frame.addEventListener('load', () => {
    let href
    try {
      href = frame.contentWindow.location.href
    } catch {
      // The page is of another origin, so it is the bank's.
    }
    if (href != 'about:blank') tell({ threeds: 'loaded' })
  })
  postForm(url, fields, 'bank')
}

// openBank posts the challenge from a window of its own, which knows token and secret from
// the fragment of its address.
async function openBank(token, binding, session) {
  const { challenge } = await newAPI({ token, binding, base: '' }, () => {}).state(-1)
  if (challenge) postForm(challenge.url, { creq: challenge.creq, threeDSSessionData: btoa(session).replace(/=/g, '') })
  else close()
}

const [token, binding, session] = location.hash.slice(1).split('.')
if (parent == self) {
  history.replaceState(null, '', location.pathname)
  if (token) openBank(token, binding, session).catch(() => close())
} else {
  addEventListener('message', ({ data, source }) => {
    if (source == parent && data?.threeds == 'show') show(data)
    if (data?.threeds == 'back') tell({ threeds: 'back' })
  })
  tell({ threeds: 'ready', accept: document.documentElement.dataset.accept })
}
