"""The boundary table, as rows of text for the HTML page and the Markdown summary."""

SITUATIONS = (('root', 'as root'), ('user', 'as a user'), ('no_user_namespaces', 'user, no user namespaces'),
              ('docker_rules', 'under docker\'s default rules'))


def reached(row, implemented):
    """How many calls guest code reaches, in a few words."""
    if 'reachable' not in row:
        return row.get('message') or 'not measured'
    text = f'{row["reachable"]} of {implemented}'
    if row.get('virtual_cpu'):
        return f'{text} seen; guest code runs on a virtual CPU'
    if row.get('tracer'):
        return f'{text} seen; every call stops at a tracer ({row["tracer"]})'
    return text


def outcome(row, situation):
    """(text, full message) of whether the peer runs in a situation."""
    needs = row.get('needs') or {}
    if situation not in needs:
        return 'not tried', ''
    return ('runs', '') if needs[situation] == '' else ('does not run', needs[situation])


def extras(row):
    needs = row.get('needs') or {}
    words = [needs['daemon']] if needs.get('daemon') else []
    if needs.get('kvm'):
        words.append('/dev/kvm')
    return '; '.join(words) or 'nothing'


def own_processes(row, last=480):
    """What the peer's own processes could call if they were taken over."""
    parts = [f'{name} {"all" if count >= last else count}' for name, count in sorted((row.get('own') or {}).items())
             if name not in ('sh', 'bash')]
    return ', '.join(parts) or 'none'
