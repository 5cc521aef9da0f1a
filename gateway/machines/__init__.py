"""The rules, sans-IO: step(state, event) gives (state, effects); nothing here awaits."""
