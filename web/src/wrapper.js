// The wrapper document of B: it shows a page of the bank in a frame of its own, so that the
// page of the merchant needs no more in its Content-Security-Policy than B.

import frames from '../frames.json'
import { newAPI } from './api.js'
import { postForm } from './form.js'
import { readID } from './options.js'

const tell = (message) => parent.postMessage(message, '*')

function show({ kind, url, fields, allow, popups }) {
  const frame = document.createElement('iframe')
  frame.name = 'bank'
  frame.title = kind
  frame.sandbox = frames.sandbox[kind + (popups ? 'Before231' : '')]
  if (allow) frame.allow = allow
  document.body.replaceChildren(frame)
  postForm(url, fields, 'bank')
  // Until a page has come, the frame has the empty page that this script can read. The page that comes is the bank's or, where
  // the bank forbids frames or cannot be reached, one of the browser: no engine tells a script which.
  const timer = setInterval(() => {
    if (frame.contentDocument?.URL == 'about:blank') return
    clearInterval(timer)
    tell({ threeds: 'filled' })
  }, 100)
}

// openBank posts the challenge from a window of its own, which knows token and secret from
// the fragment of its address. The page that the bank comes back to asks whether this is a window that can close itself.
async function openBank(token, binding, session) {
  try {
    sessionStorage.setItem('threeds.' + readID(token), session)
  } catch {
    // Storage is refused: that page goes to the shop instead.
  }
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
