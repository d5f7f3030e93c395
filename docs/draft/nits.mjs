// Reads what idnits found, as JSON, and ends with exit code 1 at a finding whose
// code the allow-list does not have: idnits itself ends with 0 whatever it finds.
//
// usage: node nits.mjs FOUND ALLOWED
import { readFileSync } from 'node:fs'

const [found, allowed] = process.argv.slice(2)
const lines = readFileSync(allowed, 'utf8').split('\n').filter(line => line && !line.startsWith('#'))
const codes = new Set(lines.map(line => line.split(/\s+/)[0]))
const { nits, nitsBySeverity } = JSON.parse(readFileSync(found, 'utf8'))
const counted = Object.values(nitsBySeverity).reduce((sum, n) => sum + n, 0)
if (counted !== nits.length) throw new Error(`${found}: ${nits.length} findings, and a count of ${counted}`)

const refused = nits.filter(nit => !codes.has(nit.code))
for (const nit of refused) console.error(`${found}: ${nit.severity} ${nit.code}: ${nit.desc}`, nit.lines ?? nit.path ?? '')
console.log(`idnits ${found.split('/').pop()}: ${refused.length} refused, ${nits.length - refused.length} allowed`)
if (refused.length > 0) process.exitCode = 1
