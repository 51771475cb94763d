"""The page's looks: one style sheet, light and dark, for wide and narrow screens and for paper."""

from __future__ import annotations

from ecmproto.report.palette import COLOURS

_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
 font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.page{max-width:1088px;margin:0 auto;padding:2.5rem 1.5rem 4rem}
h1{font-size:1.9rem;line-height:1.2;margin:.2rem 0 1rem;overflow-wrap:anywhere;text-wrap:balance}
h2{font-size:1.3rem;line-height:1.3;margin:3.2rem 0 .8rem}
h3{font-size:1.05rem;margin:2rem 0 .4rem}
p,li,dd,dt,figcaption,caption{overflow-wrap:anywhere}
p,figcaption,ul{max-width:46rem}
.kicker{margin:0;color:var(--muted);font-size:.9rem}
.lead{font-size:1.13rem;margin:0}
a{color:var(--queue)}
nav ul{display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;list-style:none;margin:1.6rem 0 0;padding:0;
 font-size:.95rem}
figure{margin:0}
figcaption{color:var(--muted);margin:0 0 1rem}
.plot{display:block;width:100%;height:auto;stroke-linejoin:round}
.plot text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif!important}
.narrow{display:none}
.scroll{overflow-x:auto;margin:0 -.2rem;padding:0 .2rem}
.broad{width:min(100vw - 4rem,84rem);margin-left:calc(50% - min(100vw - 4rem,84rem)/2)}
.scroll:focus-visible{outline:2px solid var(--queue)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.95rem}
caption{text-align:left;color:var(--muted);padding-bottom:.8rem;max-width:46rem;white-space:normal}
th,td{padding:.42rem .9rem .42rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid)}
thead th{border-bottom:2px solid var(--muted);vertical-align:bottom}
tbody th{font-weight:400}
.results{width:100%}
.single{width:auto;min-width:min(100%,30rem)}
.results td,.results thead th+th{text-align:right;padding-left:.6rem;padding-right:.2rem}
.results td{white-space:nowrap}
.results tbody th{min-width:9.5rem}
.broad tbody th,.broad thead th:first-child{position:sticky;left:0;background:var(--paper)}
.results .best{font-weight:700}
.bar{display:block;height:4px;margin-top:3px;margin-left:auto;width:calc(4.8rem*var(--part));background:var(--others);
 border-radius:2px;opacity:.75}
.best .bar{background:var(--queue);opacity:1}
.hint{color:var(--muted);font-size:.85em;white-space:nowrap}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.25rem 1.4rem;margin:.6rem 0}
dt{color:var(--muted)}
dd{margin:0}
details{margin:.6rem 0}
summary{cursor:pointer;padding:.25rem 0}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.92em}
@media (max-width:700px){
 .page{padding:1.4rem 1.05rem 3rem}
 h1{font-size:1.5rem}
 h2{margin-top:2.6rem}
 .wide{display:none}
 .narrow{display:block}
 .broad{width:auto;margin-left:-.2rem}
 .results tbody th,.results thead th:first-child{position:sticky;left:0;background:var(--paper)}
 .results tbody th{min-width:7.5rem}
 .results .hint{display:block}
 caption{max-width:calc(100vw - 2.2rem)}
 dl{grid-template-columns:1fr;gap:0}
 dd{margin-bottom:.5rem}
}
@media print{
 .page{max-width:none;padding:0}
 .broad{width:auto;margin:0}
 .broad .results{font-size:.7rem}
 nav{display:none}
 figure{break-inside:avoid}
}
"""


def stylesheet() -> str:
    """Return the CSS, the colours of both themes in front."""
    light = "".join(f"{colour.variable}:{colour.light};" for colour in COLOURS)
    dark = "".join(f"{colour.variable}:{colour.dark};" for colour in COLOURS)
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}{_RULES}"
    )
