"""The one style sheet of report.html. It loads nothing; the page's policy allows it by its hash."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--page:#f5f6f4;--card:#fff;--ink:#1c2126;--quiet:#57606a;--line:#dcdfe3;--faint:#eef0f2;
--ok:#0d6338;--ok-bg:#e2f3e9;--bad:#a01f19;--bad-bg:#fdebe9;--warn:#754800;--warn-bg:#fbf0d7;--open:#493da3;
--open-bg:#eeecfb;--bar:#5b7f9d}
@media (prefers-color-scheme:dark){:root{--page:#101317;--card:#181c22;--ink:#e7eaee;--quiet:#a0a9b4;--line:#2f363f;
--faint:#20262d;--ok:#7adba3;--ok-bg:#12301f;--bad:#ff9d95;--bad-bg:#3b1a18;--warn:#f1c772;--warn-bg:#352a11;
--open:#beb6ff;--open-bg:#272247;--bar:#7fa9cc}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Liberation Sans",Arial,sans-serif;-webkit-text-size-adjust:100%}
header,main,footer{max-width:1120px;margin:0 auto;padding:0 24px}
header{padding-top:32px}
.eyebrow{margin:0 0 6px;color:var(--quiet);font-size:13px}
h1{margin:0;font-size:28px;line-height:1.25;overflow-wrap:anywhere;display:flex;gap:14px;align-items:center;
flex-wrap:wrap}
h2{margin:0 0 14px;font-size:17px;line-height:1.3}
h3{margin:20px 0 8px;font-size:14px}
p{margin:0 0 10px}
.verdict{margin:20px 0 0;padding:18px 22px;border-radius:10px;border:1px solid;border-left-width:6px;font-size:18px;
line-height:1.45;overflow-wrap:anywhere}
.verdict p{margin:0}
.verdict p+p{margin-top:6px;font-size:15px}
.tag{display:inline-flex;align-items:center;gap:6px;padding:1px 9px 1px 7px;border-radius:99px;border:1px solid;
font-size:13px;font-weight:600;line-height:1.6;white-space:nowrap}
h1 .tag{font-size:15px;padding:2px 13px 2px 10px}
.ok{color:var(--ok);background:var(--ok-bg);border-color:var(--ok)}
.bad{color:var(--bad);background:var(--bad-bg);border-color:var(--bad)}
.warn{color:var(--warn);background:var(--warn-bg);border-color:var(--warn)}
.open{color:var(--open);background:var(--open-bg);border-color:var(--open)}
.flat{color:var(--quiet);background:var(--faint);border-color:var(--line)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:12px;margin:16px 0 0}
.facts div,section{background:var(--card);border:1px solid var(--line);border-radius:10px}
.facts div{padding:12px 16px}
.facts dt{color:var(--quiet);font-size:13px}
.facts dd{margin:2px 0 0;font-weight:600;overflow-wrap:anywhere}
.facts dd small{display:block;color:var(--quiet);font-weight:400;font-size:13px}
nav{margin:18px 0 0}
nav ul{display:flex;flex-wrap:wrap;gap:4px 18px;margin:0;padding:0;list-style:none;font-size:14px}
a{color:inherit;text-decoration-color:var(--quiet);text-underline-offset:3px}
a:focus-visible,summary:focus-visible{outline:2px solid var(--open);outline-offset:2px;border-radius:3px}
section{margin:16px 0;padding:20px 22px}
table{width:100%;border-collapse:collapse;font-size:14px}
caption{text-align:left;color:var(--quiet);font-size:13px;padding:0 0 8px}
th,td{text-align:left;vertical-align:top;padding:8px 14px 8px 0;border-top:1px solid var(--line);
overflow-wrap:anywhere}
td:not(.n):not(.w){min-width:122px}
tbody th{min-width:140px}
.note{margin:14px 0 0}
thead th{color:var(--quiet);font-weight:600;font-size:13px;border-top:0;white-space:nowrap;overflow-wrap:normal}
tbody th{font-weight:600}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.w{width:34%;min-width:120px;padding-top:13px}
td small,th small{display:block;color:var(--quiet);font-weight:400;font-size:13px}
tr.cut td{padding:7px 0;border-top:2px solid var(--ink);font-weight:600;font-size:13px}
code{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;overflow-wrap:anywhere}
pre{margin:0 0 12px;padding:10px 14px;background:var(--faint);border:1px solid var(--line);border-radius:8px;
white-space:pre-wrap;overflow-wrap:anywhere}
svg{display:block;width:100%;height:10px}
svg rect{fill:var(--bar)}
svg .track{fill:var(--faint)}
svg .miss{fill:var(--bad)}
.list{display:grid;grid-template-columns:minmax(120px,190px) 1fr;gap:0;margin:0}
.list dt,.list dd{margin:0;padding:7px 0;border-top:1px solid var(--line);overflow-wrap:anywhere}
.list dt{color:var(--quiet);padding-right:14px}
.list dt:first-of-type,.list dt:first-of-type+dd{border-top:0}
.steps{margin:0 0 12px;padding-left:22px}
.steps li{margin:0 0 6px}
summary{cursor:pointer;font-weight:600}
details[open] summary{margin-bottom:12px}
footer{padding-top:4px;padding-bottom:40px;color:var(--quiet);font-size:13px}
@media screen and (max-width:920px){td:not(.n):not(.w){min-width:84px}
tbody th{min-width:96px}
td.w{min-width:60px}}
@media screen and (max-width:700px){header,main,footer{padding-left:14px;padding-right:14px}
header{padding-top:20px}
h1{font-size:22px}
.verdict{font-size:16px;padding:14px 16px}
.facts{grid-template-columns:1fr 1fr;gap:8px}
section{padding:16px}
table,tbody,tr,td,tbody th,caption{display:block}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
tr{border-top:1px solid var(--line);padding:10px 0}
tbody tr:first-child{border-top:0;padding-top:0}
th,td,td.w,td:not(.n):not(.w),tbody th{border-top:0;min-width:0;padding:2px 0;width:auto}
td[data-label]{display:grid;grid-template-columns:minmax(84px,32%) 1fr;gap:10px}
td[data-label]::before{content:attr(data-label);color:var(--quiet)}
td.n{text-align:left}
td.w{padding:6px 0}
td.none{display:none}
tr.cut td{border-top:0}
.list{grid-template-columns:1fr}
.list dt{padding-bottom:0}
.list dd{border-top:0;padding-top:0}}
@media print{:root{color-scheme:light;--page:#fff;--card:#fff;--ink:#000;--quiet:#444;--line:#bbb;--faint:#eee;
--ok:#0d6338;--ok-bg:#fff;--bad:#a01f19;--bad-bg:#fff;--warn:#754800;--warn-bg:#fff;--open:#493da3;--open-bg:#fff;
--bar:#555}
body{font-size:10pt}
table{font-size:9pt}
td:not(.n):not(.w){min-width:72px}
tbody th{min-width:84px}
nav,details:not([open]){display:none}
header,main,footer{max-width:none;padding-left:0;padding-right:0}
section,.facts div{border-radius:0;break-inside:auto}
tr,.verdict,h2{break-inside:avoid}
h2,caption{break-after:avoid}}
""".strip()

STYLE_HASH: Final = "sha256-" + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode("ascii")
