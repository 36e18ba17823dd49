// The script of the hosted page: it runs the same flow inside the page, and leaves by a form.

import { checkOptions } from './options.js'
import { runFlow } from './flow.js'

const page = document.documentElement.dataset
const start = document.getElementById('start')
const form = document.getElementById('end')
const o = checkOptions({ url: location.href, container: document.getElementById('flow'), locale: page.locale })
o.hosted = true
start.hidden = true
// A page that comes back from the cache of the browser has sent its form already.
addEventListener('pageshow', (event) => event.persisted && location.reload())
runFlow(o).then((status) => {
  if (status == 'unreachable') return location.reload()
  form.submit()
})
