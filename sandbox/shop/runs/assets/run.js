// The pages of the runs work without this. With it, a run is made again in this page, and a line is copied.
for (const form of document.querySelectorAll('form[data-again]')) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    const button = form.querySelector('button')
    button.disabled = true
    try {
      const { authenticate } = await import(form.dataset.again)
      const answer = await fetch(form.action, { method: 'POST', headers: { Accept: 'application/json' } })
      const { to, url } = await answer.json()
      if (url) await authenticate({ url })
      location.assign(to)
    } catch (error) {
      console.error(error)
      button.disabled = false
      form.submit() // by the hosted page
    }
  })
}
for (const link of document.querySelectorAll('a[data-line]')) {
  link.addEventListener('click', async (event) => {
    event.preventDefault()
    try {
      await navigator.clipboard.writeText(await (await fetch(link.href)).text())
      link.textContent = 'Copied'
    } catch {
      location.assign(link.href)
    }
  })
}
