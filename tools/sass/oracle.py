"""nvdisasm as a fast oracle: machine words in, texts out.

nvdisasm takes a tenth of a second to start and stops at the first illegal word of a file, so asking
it about millions of single words needs a trick: a small library loaded into it (forkserver.c) stops
the process when it is about to read its input the second time, and from then on forks one child per
request. A request costs some milliseconds, and holds as many words as we like, up to the first illegal one.

nvdisasm and ptxas are found in the directory ORIOLE_ORACLES, else in .oracles/bin of the checkout.
"""
import os
import re
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.environ.get('ORIOLE_ORACLES') or os.path.join(HERE, '..', '..', '.oracles', 'bin')
_LINE = re.compile(r'^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*$')
_ADDRESS = re.compile(r'(?<![\w\[+])(-?)0x([0-9a-f]+)$')
# Instructions whose last number is an address: printed relative to the next instruction, `PC+0x10`.
_RELATIVE = ('BRA', 'BSSY', 'CALL.REL', 'LEPC', 'RET.REL', 'WARPSYNC.COLLECTIVE')


def _library():
    """Path of the compiled fork server."""
    path = os.path.join(tempfile.gettempdir(), f'oriole-forkserver-{os.getuid()}.so')
    source = os.path.join(HERE, 'forkserver.c')
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
        part = f'{path}.{os.getpid()}'
        subprocess.run(['cc', '-O1', '-shared', '-fPIC', '-o', part, source, '-ldl'], check=True)
        os.replace(part, path)
    return path


def relative(text, address):
    """The text with an absolute branch target turned into a distance from the next instruction."""
    name = re.sub(r'^@\S+ ', '', text).split(' ')[0]
    if '[' not in text and any(name == x or name.startswith(x + '.') for x in _RELATIVE):
        m = _ADDRESS.search(text)
        if m:
            v = int(m.group(2), 16) * (-1 if m.group(1) else 1) - address - 16
            return f'{text[:m.start()]}PC{"-" if v < 0 else "+"}{abs(v):#x}'
    return text


class Disassembler:
    """One nvdisasm for one target (`SM90a`); answers are remembered."""

    def __init__(self, name):
        self.name, self.cache = name, {}
        self._start()

    def _start(self):
        shm = '/dev/shm' if os.path.isdir('/dev/shm') else None
        self.directory = tempfile.TemporaryDirectory(prefix='sass', dir=shm)
        self.input = os.path.join(self.directory.name, 'in')
        self.output = os.path.join(self.directory.name, 'out')
        with open(self.input, 'wb') as f:
            f.write(bytes(16))
        ask_read, ask_write = os.pipe()
        answer_read, answer_write = os.pipe()

        def descriptors():
            os.dup2(ask_read, 198)
            os.dup2(answer_write, 199)

        env = dict(os.environ, LD_PRELOAD=_library(), FORKSERVER_INPUT=self.input)
        self.process = subprocess.Popen([os.path.join(TOOLS, 'nvdisasm'), '-b', self.name, self.input], env=env, preexec_fn=descriptors,
                                        close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ask_read)
        os.close(answer_write)
        self.ask, self.answer = os.fdopen(ask_write, 'w'), os.fdopen(answer_read)

    def _answer(self):
        try:
            self.ask.write(f'{self.input}\t{self.output}\n')
            self.ask.flush()
            return self.answer.readline()
        except BrokenPipeError:
            return ''

    def _request(self, words):
        """('ok', texts), ('bad', index of the first illegal word) or ('fail', output)."""
        with open(self.input, 'wb') as f:
            f.write(b''.join(w.to_bytes(16, 'little') for w in words))
        status = self._answer()
        if not status:
            # the process was lost: start another
            self._start()
            return self._request(words)
        status = int(status)
        with open(self.output) as f:
            out = f.read()
        m = re.search(r'at address (0x[0-9a-f]+)', out)
        if m:
            return 'bad', int(m.group(1), 16) // 16
        if status:
            return 'fail', out
        texts = {}
        for line in out.split('\n'):
            m = _LINE.match(line)
            if m:
                a = int(m.group(1), 16)
                texts[a // 16] = relative(m.group(2).replace(' ,', ',').replace('] [', ']['), a)
        return 'ok', [texts.get(i) for i in range(len(words))]

    def _chunk(self, words):
        """Asks for some words: one request for each illegal one among them, and two more."""
        legal, i = [], 0
        while i < len(words):
            kind, v = self._request(words[i:])
            if kind == 'bad':
                legal += words[i:i + v]
                self.cache[words[i + v]] = None
                i += v + 1
                continue
            if kind == 'ok':
                self.cache.update(zip(words[i:], v))
            elif len(words) - i == 1:
                self.cache[words[i]] = None
            else:
                half = i + (len(words) - i) // 2
                self._chunk(words[i:half])
                self._chunk(words[half:])
            break
        if legal:
            kind, texts = self._request(legal)
            if kind == 'ok':
                self.cache.update(zip(legal, texts))
            else:
                for w in legal:
                    self._chunk([w])

    def many(self, words):
        """The text of each word, None for illegal ones."""
        todo = [w for w in dict.fromkeys(words) if w not in self.cache]
        for i in range(0, len(todo), 2000):
            self._chunk(todo[i:i + 2000])
        return [self.cache[w] for w in words]

    def one(self, word):
        return self.many([word])[0]
