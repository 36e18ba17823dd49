import frames from '../frames.json'
import { openFrame } from './frame.js'
import { postForm } from './form.js'
import { css } from './style.js'

const make = (tag, props, ...children) => {
  const { mark, ...rest } = props ?? {}
  const element = Object.assign(document.createElement(tag), rest)
  if (mark) element.dataset.threeds = mark
  element.append(...children)
  return element
}

/** openUI shows the dialog, or fills the container. onCancel is called when the shopper has confirmed to cancel. */
export function openUI(o, onCancel) {
  const before = document.activeElement
  const host = make('div')
  const root = host.attachShadow({ mode: 'open' })
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(css)
  root.adoptedStyleSheets = [sheet]

  // These words are for a page that cannot reach the server. All others come from there.
  let texts = {
    cancel: 'Cancel', keep: 'Go on', confirmCancel: 'Cancel the payment', cancelTitle: 'Cancel the payment?',
    offlineTitle: 'No connection'
  }
  const text = (key) => texts[key] ?? ''
  const timers = []
  const closers = []
  let isClosed = false
  let ask = null

  // A page has one heading of the first level, and the hosted page has no other. Landmarks are those of the page around us.
  const level = o.hosted ? 1 : 2
  const heading = (props) => make('h' + (level + 1), props)
  const title = make('h' + level, { id: 't', tabIndex: -1, textContent: '3-D Secure' })
  const cancel = make('button', { mark: 'cancel', type: 'button', className: 'quiet', textContent: text('cancel'), onclick: () => showAsk() })
  const head = make('div', { className: 'head' }, title, cancel)
  const main = make('div', { className: 'body' })
  const amount = make('span')
  const notice = make('p', { role: 'status', hidden: true })
  const foot = make('div', { className: 'foot', hidden: true }, make('div', { className: 'said' }, amount, notice))
  const box = make(o.container ? 'section' : 'dialog', { className: 'box', mark: o.container ? '' : 'dialog' }, head, main, foot)
  box.setAttribute('aria-labelledby', 't')
  if (o.container) box.role = 'group'
  root.append(box)

  const later = (seconds, action) => timers.push(setTimeout(action, seconds * 1000))
  // fill shows something else than the page of the bank. The link below that page goes with it.
  const fill = (element) => {
    main.replaceChildren(element)
    foot.querySelector('button')?.remove()
  }

  const waitTitle = heading()
  const waitText = make('p')
  const trouble = { is: false }
  const waiting = make('div', { className: 'panel mid', mark: 'spinner', role: 'status' }, make('span', { className: 'spin' }), waitTitle, waitText)
  let words = 'wait'
  const fillWaiting = () => {
    waitTitle.textContent = text(trouble.is ? 'offlineTitle' : 'waitTitle')
    waitText.textContent = text(trouble.is ? 'offlineText' : words)
  }
  const showWaiting = () => {
    fillWaiting()
    if (waiting.parentNode != main) fill(waiting)
  }
  later(frames.seconds.slowWords, () => {
    words = 'waitLong'
    fillWaiting()
  })

  // showAsk asks whether to cancel. Escape goes on, and so does the button that has the focus.
  function showAsk() {
    if (ask || isClosed) return
    const focused = root.activeElement
    const keep = make('button', { mark: 'keep', type: 'button', className: 'main', textContent: text('keep'), onclick: hideAsk })
    const leave = make('button', { mark: 'confirm-cancel', type: 'button', textContent: text('confirmCancel'), onclick: () => {
      hideAsk()
      onCancel()
    } })
    ask = make('div', { className: 'panel', role: 'alertdialog' },
      heading({ id: 'a', textContent: text('cancelTitle') }), make('p', { id: 'b', textContent: text('cancelText') }), keep, leave)
    ask.setAttribute('aria-labelledby', 'a')
    ask.setAttribute('aria-describedby', 'b')
    ask.focused = focused
    main.hidden = cancel.hidden = true
    main.after(ask)
    keep.focus()
  }
  function hideAsk() {
    const focused = ask?.focused
    ask?.remove()
    ask = null
    main.hidden = cancel.hidden = false
    ;(focused?.isConnected ? focused : title).focus()
  }
  const escape = (event) => {
    event.preventDefault()
    ask ? hideAsk() : showAsk()
  }
  box.addEventListener('keydown', (event) => {
    if (event.key == 'Escape') escape(event)
  })
  if (!o.container) {
    box.addEventListener('cancel', (event) => event.preventDefault())
    // A browser may close the dialog all the same, such as by the back gesture of a phone.
    box.addEventListener('close', () => {
      if (isClosed) return
      box.showModal()
      showAsk()
    })
  }

  const ui = {
    text, showWaiting,
    onClose: (action) => closers.push(action),
    addFrame: (frame, kind) => {
      if (kind == 'method') return box.append(frame)
      const size = frames.sizes[o.size]
      if (size) [frame.width, frame.height] = size
      main.replaceChildren(frame)
    },
    showTrouble: (is) => {
      trouble.is = is
      fillWaiting()
      notice.hidden = !is
      amount.classList.toggle('unseen', is)
      notice.textContent = is ? text('offlineTitle') : ''
    },
    showLooks: (view) => {
      texts = view.texts
      box.dir = view.dir
      box.lang = view.lang
      title.textContent = text('title')
      cancel.textContent = text('cancel')
      amount.textContent = text('amount')
      foot.hidden = false
      if (view.colour) {
        host.style.setProperty('--main', view.colour)
        host.style.setProperty('--on', view.onColour)
      }
      if (main.firstChild == waiting) fillWaiting()
    },
    showChallenge: ({ challenge }) => {
      const origin = new URL(challenge.url).origin
      const grant = (who) => frames.allow.map((feature) => feature + ' ' + who).join('; ')
      // The frame and the foot keep their places from now on: nothing moves while the shopper types.
      let isFilled = false
      const wrapper = openFrame(o.base, ui, 'challenge', grant(new URL(o.base).origin + ' ' + origin), (message) => {
        if (message == 'filled') {
          isFilled = true
          if (way.isConnected) showLink()
        }
        if (message == 'back') showWaiting()
      })
      const openBank = () => {
        if (o.hosted) return postForm(challenge.url, { creq: challenge.creq, threeDSSessionData: 'dG9w' })
        const to = o.base + 'open#' + o.token + '.' + o.binding + '.'
        const opened = window.open(to + 'window', 'threeds' + o.id)
        if (!opened) location.assign(to + 'top')
      }
      const button = (props) => make('button', { type: 'button', onclick: openBank, ...props })
      // A frame that stays empty has the button in its place. One that is filled may show the page of the bank, or none: below
      // it there is a link, which covers nothing.
      const words = make('p', { role: 'status', textContent: text('openText') })
      const way = make('div', { className: 'panel mid way' }, heading({ textContent: text('openTitle') }), words,
        button({ mark: 'open-bank', className: 'main', textContent: text('openBank') }))
      const link = button({ className: 'quiet unseen', textContent: text('openMissing') })
      foot.append(link)
      const showLink = () => {
        way.remove()
        wrapper.frame.classList.remove('unseen')
        link.classList.remove('unseen')
        link.dataset.threeds = 'open-bank'
      }
      later(frames.seconds.openBank, () => {
        if (!wrapper.frame.isConnected) return
        if (isFilled) return showLink()
        wrapper.frame.classList.add('unseen')
        main.append(way)
      })
      later(frames.seconds.deadBank, () => {
        words.textContent = text('deadBank')
      })
      wrapper.show({
        kind: 'challenge', url: challenge.url, allow: grant(origin), popups: challenge.popups,
        fields: { creq: challenge.creq, threeDSSessionData: 'ZnJhbWU' }
      })
      return wrapper
    },
    askForClick: (signal) => new Promise((resolve) => {
      const button = make('button', { mark: 'continue', type: 'button', className: 'main', textContent: text('hostedContinue'), onclick: resolve })
      fill(make('div', { className: 'panel' }, make('p', { textContent: text('hostedText') }), button))
      button.focus()
      signal.addEventListener('abort', resolve)
    }),
    showInfo: (info, signal) => new Promise((resolve) => {
      const button = make('button', { mark: 'continue', type: 'button', className: 'main', textContent: text('continue'), onclick: resolve })
      fill(make('div', { className: 'panel' }, heading({ textContent: text('infoTitle') }),
        make('p', { className: 'note', dir: 'auto', textContent: info }), make('p', { textContent: text('infoSource') }), button))
      button.focus()
      signal.addEventListener('abort', resolve)
    }),
    close: () => {
      isClosed = true
      timers.forEach(clearTimeout)
      closers.forEach((action) => action())
      host.remove()
      if (before?.isConnected) before.focus?.()
    }
  }

  if (o.size == '05' || innerWidth < frames.phone[0]) box.classList.add('full')
  showWaiting()
  ;(o.container ?? document.body).append(host)
  if (!o.container) {
    box.showModal()
    title.focus()
  }
  return ui
}
