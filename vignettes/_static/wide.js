// On a wide page a formula in a line moves to the next line as a whole; on a phone it may break.
if (window.innerWidth > 736) window.MathJax.output.linebreaks.inline = false;
