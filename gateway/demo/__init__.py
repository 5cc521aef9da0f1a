"""`fencegate demo`: a stale holder meets the gateway, played with real processes."""


def play() -> int:
    """Play the story; 0 only if no stale write landed.

    The story is imported here, so that a worker process does not import itself with the package.
    """
    from gateway.demo.story import play as play_story

    return play_story()
