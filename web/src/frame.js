/**
 * openFrame puts a wrapper document of B into the page. ready resolves with the Accept header
 * of its request, or with '' if it does not come. show has it post a form to the bank.
 */
export function openFrame(base, ui, kind, allow, onMessage) {
  const frame = document.createElement('iframe')
  frame.dataset.threeds = kind
  frame.title = ui.text('frame') || kind
  if (allow) frame.allow = allow
  let isReady
  const ready = new Promise((resolve) => {
    isReady = resolve
    setTimeout(resolve, 3000, '')
  })
  const listen = ({ source, data }) => {
    if (source != frame.contentWindow || !data?.threeds) return
    if (data.threeds == 'ready') isReady(String(data.accept ?? ''))
    onMessage?.(data.threeds)
  }
  addEventListener('message', listen)
  frame.src = base + 'frame'
  ui.addFrame(frame, kind)
  ui.onClose(() => removeEventListener('message', listen))
  return {
    frame, ready,
    show: (order) => ready.then(() => frame.contentWindow?.postMessage({ threeds: 'show', ...order }, new URL(base).origin))
  }
}
