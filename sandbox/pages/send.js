for (const form of document.querySelectorAll("form[data-after]")) {
  setTimeout(() => form.submit(), Number(form.dataset.after));
}
