"""The Composite that turns an LLMService into its children and its status.

One way through: `resolve` (spec and runtime into a `Plan`), `render` (the plan into children),
`arrange` (what may be applied to the world as it is), `observe` (the world into facts), `judge`
(facts into a status). Nothing here does I/O; the time is an argument.
"""
