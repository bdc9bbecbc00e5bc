import ctypes, mmap, os, signal, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
machine = os.uname().machine
MKDIRAT, OPENAT2 = {'x86_64': (258, 437), 'aarch64': (34, 437)}[machine]

def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), 'failed')
    return result

def call(number, *args):
    return checked(libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *args)]))

def legacy(number, *args):
    if machine != 'x86_64':
        raise SystemExit('no such call')
    return call(number, *args)

def opened(path, flags, **more):
    os.close(os.open(path, flags, 0o600, **more))

def at(directory):
    return os.open(directory, os.O_RDONLY)

def in_thread():
    failed = []
    def act():
        try:
            checked(libc.unshare(0x200))
            os.chdir('ro/dir')
            os.mkdir('new')
        except OSError as error:
            failed.append(error)
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]

def at_end_of_page():
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    path = b'ro/new\0'
    start = mmap.PAGESIZE - len(path)
    memory[start:start + len(path)] = path
    checked(libc.mprotect(ctypes.c_void_p(address + mmap.PAGESIZE), mmap.PAGESIZE, 0))
    checked(libc.mkdir(ctypes.c_void_p(address + start), 0o700))

def over_two_pages():
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    path = b'ro/new\0'
    memory[mmap.PAGESIZE - 3:mmap.PAGESIZE - 3 + len(path)] = path
    checked(libc.mkdir(ctypes.c_void_p(address + mmap.PAGESIZE - 3), 0o700))

def openat2(path, flags):
    how = (ctypes.c_uint64 * 3)(flags, 0o600 if flags & os.O_CREAT else 0, 0)
    os.close(call(OPENAT2, -100, ctypes.c_char_p(path), ctypes.byref(how), 24))

def chdir(directory, act):
    os.chdir(directory)
    return act()

def killed():
    for _ in range(30):
        child = os.fork()
        if child == 0:
            while True:
                try: os.mkdir('ro/file')
                except OSError: pass
                try: os.rmdir('ro/never')
                except OSError: pass
                try: os.mkdir('ro/other/never')
                except OSError: pass
        time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

def many(times, act):
    for _ in range(times):
        try: act()
        except OSError as error: last = error
    raise last

def flood():
    def act(number):
        for turn in range(2000):
            try: os.mkdir('ro/%d-%d' % (number, turn % 50))
            except OSError: pass
    threads = [threading.Thread(target=act, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

RO, WO, RW, CREATE = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT
own = (os.getuid(), os.getgid())
ACTS = {
    'open': lambda: opened('ro/file', WO),
    'open-update': lambda: opened('ro/file', RW),
    'open-trunc': lambda: opened('ro/file', RO | os.O_TRUNC),
    'open-link': lambda: opened('w/filelink', WO | os.O_APPEND),
    'open-dirlink': lambda: opened('w/dirlink/file', WO),
    'open-at': lambda: opened('file', WO, dir_fd=at('ro')),
    'open-create': lambda: opened('ro/file', WO | CREATE),
    'open-absolute': lambda: opened(os.getcwd() + '/w/../ro/./file', WO),
    'openat2': lambda: openat2(b'ro/file', WO),
    'openat2-create': lambda: openat2(b'ro/new', WO | CREATE),
    'creat': lambda: os.close(legacy(85, ctypes.c_char_p(b'ro/new'), 0o600)),
    'legacy-open': lambda: os.close(legacy(2, ctypes.c_char_p(b'ro/new'), WO | CREATE, 0o600)),
    'legacy-mkdir': lambda: legacy(83, ctypes.c_char_p(b'ro/new'), 0o700),
    'legacy-rename': lambda: legacy(82, ctypes.c_char_p(b'ro/dir/file'), ctypes.c_char_p(b'w/new')),
    'create': lambda: opened('ro/new', WO | CREATE),
    'create-read': lambda: opened('ro/new', RO | CREATE),
    'create-new': lambda: opened('ro/new', WO | CREATE | os.O_EXCL),
    'create-dangling': lambda: opened('w/dangling', WO | CREATE),
    'create-unnamed': lambda: opened('ro', RW | os.O_TMPFILE),
    'mkdir': lambda: os.mkdir('ro/new'),
    'mkdir-at': lambda: os.mkdir('new', dir_fd=at('ro')),
    'mkdir-dots': lambda: chdir('ro/dir', lambda: os.mkdir('../new')),
    'mkdir-slash': lambda: os.mkdir('ro/new/'),
    'mkdir-thread': in_thread,
    'mkdir-page': at_end_of_page,
    'mkdir-pages': over_two_pages,
    'mkdir-garbage': lambda: call(MKDIRAT, 0xdeadbeef_ffffff9c - (1 << 64), ctypes.c_char_p(b'ro/new'), 0o700),
    'mknod': lambda: os.mkfifo('ro/new'),
    'rename': lambda: os.rename('ro/file', 'ro/new'),
    'rename-over': lambda: os.rename('ro/file', 'ro/dir/file'),
    'unlink': lambda: os.unlink('ro/file'),
    'unlink-at': lambda: os.unlink('file', dir_fd=at('ro')),
    'unlink-link': lambda: os.unlink('ro/link'),
    'rmdir': lambda: os.rmdir('ro/empty'),
    'link': lambda: os.link('ro/file', 'ro/new'),
    'symlink': lambda: os.symlink('x', 'ro/new'),
    'truncate': lambda: os.truncate(b'ro/file', 1),
    'chmod': lambda: os.chmod('ro/file', 0o600),
    'chown': lambda: os.chown('ro/file', *own),
    'chown-link': lambda: os.chown('ro/link', *own, follow_symlinks=False),
    'chown-empty': lambda: checked(libc.fchownat(at('ro/file'), b'', *own, 0x1000)),
    'utimes': lambda: os.utime('ro/file'),
    'setxattr': lambda: os.setxattr('ro/file', 'user.srt', b'1'),
    # What fails without any rule too.
    'none-exists': lambda: os.mkdir('ro/dir'),
    'none-missing': lambda: os.unlink('ro/missing'),
    'none-missing-open': lambda: opened('ro/missing', WO),
    'none-missing-parent': lambda: opened('ro/missing/x', WO | CREATE),
    'none-not-a-directory': lambda: os.mkdir('ro/file/x'),
    'none-exclusive': lambda: opened('ro/file', WO | CREATE | os.O_EXCL),
    'none-directory': lambda: opened('ro/dir', WO),
    'none-not-empty': lambda: os.rmdir('ro/dir'),
    'none-unlink-directory': lambda: os.unlink('ro/dir'),
    'none-rmdir-file': lambda: os.rmdir('ro/file'),
    'none-rename-missing': lambda: os.rename('ro/missing', 'ro/new'),
    'none-link-missing': lambda: os.link('ro/missing', 'ro/new'),
    'none-rename-devices': lambda: os.rename('w/file', '/dev/shm/new'),
    'none-nofollow': lambda: opened('ro/link', WO | os.O_NOFOLLOW),
    'none-fault': lambda: checked(libc.mkdir(ctypes.c_void_p(1), 0o700)),
    'none-empty': lambda: os.mkdir(''),
    'none-long': lambda: checked(libc.mkdir(b'ro/' + b'n' * 32768, 0o700)),
    'none-long-name': lambda: os.mkdir('ro/' + 'n' * 256),
    'none-bad-descriptor': lambda: checked(libc.mkdirat(999, b'new', 0o700)),
    'none-pipe': lambda: checked(libc.mkdirat(os.pipe()[0], b'new', 0o700)),
    # What nothing refuses.
    'fine-create-read': lambda: opened('ro/file', RO | CREATE),
    'fine-path': lambda: opened('ro/file', os.O_PATH | CREATE | WO),
    'fine-null': lambda: opened('/dev/null', WO | CREATE | os.O_TRUNC),
    'fine-stdout': lambda: opened('/dev/stdout', WO),
    'fine-self': lambda: opened('/proc/self/comm', RO),
    'fine-write': lambda: opened('w/new', WO | CREATE),
    'fine-rename': lambda: os.rename('w/file', 'w/dir/file'),
    'fine-dots': lambda: opened('ro/../w/new', WO | CREATE),
    'killed': killed,
    'many': lambda: many(1000, lambda: os.mkdir('ro/new')),
    'flood': flood,
}
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            ACTS[name]()
            print(name, 'done', flush=True)
        except OSError as error:
            print(name, 'errno', error.errno, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
