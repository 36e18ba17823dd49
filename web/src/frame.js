/**
 * openFrame puts a wrapper document of B into the page. accept resolves with the Accept header
 * of its request, or with '' if that has not come after three seconds. show has the document post
 * a form to the bank, however late it comes.
 */
export function openFrame(base, ui, kind, allow, onMessage) {
  const frame = document.createElement('iframe')
  frame.dataset.threeds = kind
  frame.title = ui.text('frame') || kind
  if (allow) frame.allow = allow
  let hasCome
  const ready = new Promise((resolve) => {
    hasCome = resolve
  })
  const tooLate = new Promise((resolve) => setTimeout(resolve, 3000, ''))
  const listen = ({ source, data }) => {
    if (source != frame.contentWindow || !data?.threeds) return
    if (data.threeds == 'ready') hasCome(String(data.accept ?? ''))
    onMessage?.(data.threeds)
  }
  addEventListener('message', listen)
  frame.src = base + 'frame'
  ui.addFrame(frame, kind)
  ui.onClose(() => removeEventListener('message', listen))
  return {
    frame,
    accept: Promise.race([ready, tooLate]),
    show: (order) => ready.then(() => frame.contentWindow?.postMessage({ threeds: 'show', ...order }, new URL(base).origin))
  }
}
