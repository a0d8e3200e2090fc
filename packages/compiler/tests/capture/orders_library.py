"""More rows for test_traps_orders: what programs take from the standard library, gradients, and sizes of data."""

TABLE = {
    "cached function": (
        "L=[];;@functools.lru_cache;;def h(k):;;    L.append(k);;    return k * 2;;k = 3",
        "return x * h(k)",
        "h.cache_clear() | k = 4 | k = 3.0 | h(5) | h = lambda k: 9 | k = True"),
    "dispatch on a type": (
        "@functools.singledispatch;;def h(v): return 1;;@h.register;;def _(v: int): return 2;;k = 3",
        "return x * h(k)",
        "k = 3.0 | h.register(float, lambda v: 7) | h.register(int, lambda v: 9) | k = True | k = 's'"),
    "groups": (
        "L = [1, 1, 2];;key = None",
        "return x * sum([len(list(g)) * k for k, g in itertools.groupby(L, key)])",
        "L.append(2) | key = lambda v: v % 2 | L = []"),
    "groups left early": (
        "L = [1, 1, 2, 3];;P = []",
        "for k, g in itertools.groupby(L, lambda v: P.append(v) or v):;;    P.append(('k', k));;"
        "    for i in g: P.append(('g', i)); break;;return x",
        "L.append(3) | P.clear()"),
    "members": (
        "class E(enum.Enum):;;    A = 1;;    B = 2;;e = E.A",
        "return x * e.value if e is E.A else x - e.value",
        "e = E.B | E.A._value_ = 7 | e = 3"),
    "dict with attributes": (
        "class M(dict):;;    k = 1;;    def __getattr__(self, n): return self[n];;"
        "    def __setattr__(self, n, v): self[n] = v;;D = M(a=1)",
        "D.b = n + D.a;;D['c'] = D.get('c', 0) + 1;;return x * D.b * len(D)",
        "D.a = 5 | M.__getattr__ = lambda s, n: 3 | M.__setitem__ = lambda s, k, v: None | "
        "M.__len__ = lambda s: 9 | M.get = lambda s, *a: 6"),
    "dict that changes what it keeps": (
        "class M(dict):;;    def __setitem__(self, k, v): L.append(k); dict.__setitem__(self, k, v * 2);;"
        "    def __getitem__(self, k): return dict.__getitem__(self, k) + 1;;L = [];;D = M(a=1)",
        "D['b'] = n;;D.update(c=3);;D.setdefault('d', 4);;"
        "return x * D['b'], len(D), list(D.items()), 'c' in D, D.get('b')",
        "D['b'] = 7 | del M.__getitem__ | L = () | M.__contains__ = lambda s, k: False | "
        "M.update = lambda s, **k: None | M.__iter__ = lambda s: iter('zz') | M.items = lambda s: []"),
    "arguments of an exception": (
        "k = 'q'",
        "try: raise ValueError(k, 2);;except ValueError as e: return x * len(e.args), str(e), e.args",
        "k = 3 | ValueError = KeyError"),
    "exception with fields": (
        "class E(Exception):;;    def __init__(self, k, m='m'):;;        super().__init__(m, 2);;"
        "        self.k = k;;k = 2",
        "try: raise E(k);;except E as e: return x * e.k, str(e), e.args, repr(e), f'{e}'",
        "k = 3 | E.__str__ = lambda s: 'z' | E.__init__ = lambda s, k: None | E.__bases__ = (ValueError,) | "
        "E.k = property(lambda s: 7)"),
    "cause of an exception": (
        "class E(Exception): k = 3;;D = {}",
        "try:;;    try: return D[1];;    except KeyError as e: raise E('out', str(e)) from e;;"
        "except E as e: return x * e.k, type(e.__cause__) is KeyError, str(e)",
        "E.k = 4 | D[1] = x0 | E.__getattr__ = lambda s, n: 5 | del E.k"),
    "texts of objects": (
        "class C:;;    def __repr__(self): return f'C({self.k})';;o = C();;o.k = 1",
        "return x, f'{o} {o!r}', str(o), repr(o), format(o)",
        "o.k = 2 | C.__str__ = lambda s: 's' | C.__format__ = lambda s, f: f + 'f' | C.__repr__ = lambda s: 'r'"),
    "texts of dataclasses": (
        "@dataclasses.dataclass;;class P:;;    a: int = 1;;o = P()",
        "return x, repr(o), f'{o}', repr(P(2))",
        "o.a = 5 | P.__repr__ = lambda s: 'p' | o.b = 3 | P.__init__ = lambda s, *a: setattr(s, 'a', 9)"),
    "class that counts": (
        "class C:;;    n = 0;;    def hit(self):;;        type(self).n += 1;;        C.last = self.k;;"
        "        return C.n;;o = C();;o.k = 1",
        "return x * o.hit(), C.n, o.n, C.last, hasattr(o, 'last')",
        "C.n = 5 | o.n = 100 | o.k = 2.5 | o = type('D', (C,), {'k': 3})() | C.last = property(lambda s: 3)"),
    "class between classes": (
        "class A:;;    n = 1;;class M:;;    n = property(lambda s: 50);;class B(A): pass;;class D(B, M): pass;;o = D()",
        "B.n = k;;return x * o.n, A.n, B.n",
        "k = 7 | A.n = 8 | D.n = 9 | B.n = property(lambda s: 4)"),
    "function that counts": (
        "def h(v):;;    h.n = getattr(h, 'n', 0) + 1;;    return v * h.n",
        "return h(x), h.n, hasattr(h, 'm')",
        "h.n = 10 | del h.n | h.n = 1.5 | h.m = 0 | h = lambda v: v"),
    "counter": (
        "C = collections.Counter('aab');;k = 'ab'",
        "C.update(k);;C['z'] += 1;;del C['q'];;d = collections.Counter(k);;"
        "return x * C['a'], C.most_common(1), C['none'], len(C), dict(C), d, d['c']",
        "k = 'bb' | C['a'] = 9 | C.clear() | C = collections.Counter(b=2.5) | C = {} | k = 5"),
    "counters together": (
        "C = collections.Counter('aab');;D = collections.Counter('bc')",
        "C |= D;;return x * len(C), C, C == D, C + D, D - C",
        "D['b'] = 9 | C['x'] = 0 | C = dict(a=1)"),
    "missing key": (
        "class M(dict):;;    def __missing__(self, k):;;        self[k] = v = [k];;        return v;;D = M()",
        "D['a'].append(1);;e = M();;e['n'] = x;;return x * len(D['a']), D.get('zz'), 'b' in D, e, e['m']",
        "D.clear() | M.__missing__ = lambda s, k: [1, 2, 3] | D['a'] = [7] | D = collections.defaultdict(list) | "
        "del M.__missing__"),
    "dict with a constructor": (
        "class M(dict):;;    def __init__(self, *a, **k):;;        super().__init__(*a, **k);;"
        "        self.n = len(self);;    def __delitem__(self, k):;;        L.append(k);;"
        "        super().__delitem__(k);;L = []",
        "m = M({'a': x}, b=2);;del m['b'];;m.t = 3;;return m, m.n, m.t, vars(m) if 0 else len(m)",
        "M.__init__ = lambda s, *a, **k: None | L = None | M.n = 7 | M.t = property(lambda s: 1)"),
    "named tuple with methods": (
        "P = collections.namedtuple('P', 'a b');;P.total = lambda self: self.a + self.b;;P.k = property(lambda s: 3);;"
        "q = P(1, 2)",
        "p = q._replace(a=x);;return p.total(), p.k, p._fields, p._asdict(), P._make([1, x]), P(x, 1)",
        "P.total = lambda self: self.b | q = P(3, 4) | P.k = 5 | P._replace = lambda s, **k: s | del P.total | "
        "P.__new__ = lambda c, a, b: tuple.__new__(c, (b, a))"),
    "order of a dict": (
        "D = collections.OrderedDict(a=1, b=2, c=3)",
        "D.move_to_end('a');;k, v = D.popitem(last=False);;D['z'] = v;;D.move_to_end('z', last=False);;"
        "return x * v, k, list(D.items())",
        "D.move_to_end('c', last=False) | D['a'] = 9 | D = collections.OrderedDict(q=1, a=2) | D.clear()"),
    "iterator of its own": (
        "class I:;;    n = 2;;    def __iter__(self):;;        self.i = 0;;        return self;;"
        "    def __next__(self):;;        if self.i >= self.n: raise StopIteration;;        self.i += 1;;"
        "        return self.i;;o = I()",
        "it = iter(o);;return [x * i for i in o], sum(o), next(it, 9), it is o, o.i",
        "o.n = 3 | I.__iter__ = lambda s: iter([5]) | I.__next__ = lambda s: next(iter(())) | I.n = 1"),
    "draws with probabilities": (
        "p = torch.tensor([0.5, 0.2, 0.9])",
        "return torch.bernoulli(p), x.clone().bernoulli_(p), torch.nn.functional.gumbel_softmax(x, hard=True), x",
        "p.mul_(0.5) | p = torch.tensor([2.0]) | p = p.double() | torch.manual_seed(3) | p = p.long() | "
        "p = torch.tensor([0.5, 0.2, 0.9], requires_grad=True)"),
    "numbers of numpy": (
        "import numpy as np;;k = np.sqrt(4.0);;n = 3;;o = Box(scale=np.float32(0.1))",
        "return x * k, x + np.pi, x / np.sqrt(n), o.scale * 2, k > 1, -k, float(k), x.reshape(int(np.prod(x.shape))), "
        "np.log(n + 1).item(), k == 2, np.clip(n, 0, 2), f'{k:.1f}', k is None, np.maximum(k, n), np.float32(n) / 3",
        "k = np.float64(-0.0) | k = 2.0 | n = 7 | o.scale = np.float32('nan') | "
        "k = np.int64(2) | n = 0 | k = np.float64('nan') | np = None"),
    "arrays of numpy": (
        "import numpy as np;;n = 3;;L = [1.0, 2.0, 4.0]",
        "w = np.hanning(n) + np.array(L[:n]);;"
        "return x[:n] * torch.tensor(w, dtype=x.dtype), [x * s for s in np.linspace(0, 1, n)], w.sum(), w[0], len(w), "
        "w.mean() > 1, torch.tensor((w / w.max()).tolist()), w.astype(np.int64)[-1]",
        "n = 2 | L[0] = 9.0 | L.append('a') | n = 1 | L = np.array(L) | n = 0"),
    "arrays from outside": (
        "import numpy as np;;a = np.arange(3.0);;b = np.ones(3, np.float32)",
        "t = torch.from_numpy(b);;t.add_(1);;"
        "return x * torch.tensor(a, dtype=x.dtype), torch.tensor(a), torch.as_tensor(a, dtype=torch.float64) * 2, t",
        "a[0] = 5 | a = np.arange(6.0)[::2] | b[:] = 7 | a = [1.0, 2.0, 3.0] | b = np.zeros(1, np.int64) | b = a | "
        "b.flags.writeable = False"),
    "array that becomes a tensor twice": (
        "import numpy as np;;a = np.ones(3, np.float32)",
        "s, t = torch.from_numpy(a), torch.as_tensor(a);;s.mul_(2);;return s is t, t + x, s",
        "a[1] = 4 | a = np.ones(3)"),
    "heap": (
        "import heapq;;H = [3, 1, 2];;k = 0",
        "h = [(v, x * v) for v in H];;heapq.heapify(h);;heapq.heappush(h, (k, x));;"
        "return heapq.heappop(h), h, heapq.heappushpop(H, k + 2), heapq.heapreplace(H, 9), H",
        "k = 5 | H.append(0) | H.clear() | H = (1,) | k = 2.5"),
    "bisection": (
        "import bisect;;E = [1, 3, 5];;k = 3",
        "return x * bisect.bisect_right(E, k), bisect.bisect_left(E, k, lo=1), bisect.bisect(E, k)",
        "k = 4 | E.append(7) | E = 'abc' | E = (0, 3)"),
    "sorted by an order of its own": (
        "class C:;;    def __init__(self, k): self.k = k;;    def __lt__(self, o): return self.k < o.k;;o = C(2)",
        "return x, [c.k for c in sorted([C(3), o, C(1)], reverse=True)], sorted([(1, x), (0, x)])[0][0], "
        "(1, x) < (2, x)",
        "o.k = 0 | C.__lt__ = lambda s, o: s.k > o.k | del C.__lt__ | o = 5"),
    "list repeated in place": (
        "L = [1];;k = 2",
        "L *= k;;return x * len(L), L",
        "k = 0 | L.append(3) | k = -1 | L = (1,)"),
    "dict that grows under a loop": (
        "D = {'a': 1};;k = 'b'",
        "try:;;    for i in D: D[i + k] = 1;;except RuntimeError as e: return x, str(e), len(D)",
        "D.clear() | k = ''"),
    "plain objects": (
        "M = object();;D = {}",
        "s = object();;D['s'] = D.get('s', s);;return x if D['s'] is s else -x, M is M, s is M",
        "D.clear() | D['s'] = M"),
    "callable or not": (
        "class C:;;    def __call__(self): return 1;;o = C()",
        "return x if callable(o) else -x",
        "del C.__call__ | o = 3 | o = len"),
    "texts of builtin classes that programs derive from": (
        "import datetime;;class F(float): pass;;class C:;;    def __format__(self, s): return 'c' + s;;"
        "o, c, d = F(1.5), C(), datetime.date(2020, 1, 2);;k = 'q'",
        "try: return x, f'{o:.2f}', f'{d:%Y}', format(c, k);;except TypeError as e: return x, str(e)",
        "d = datetime.date(2021, 1, 1) | k = 5 | F.__format__ = lambda s, f: 'F'"),
    "texts with names": (
        "class E(Exception): pass;;class C: pass;;def h(a): return a;;o = C()",
        "r = [];;for g in (lambda: o.k, h, lambda: [].k, lambda: D[1]):;;    try: r.append(g());;"
        "    except Exception as e: r.append((str(e), type(e).__name__));;"
        "try: raise E(1);;except E as e: return x, r, repr(e)",
        "E.__name__ = 'F' | C.__name__ = 'G' | h.__qualname__ = 'H' | o.k = 2 | D = {1: 2}"),
    "texts of dataclasses, replaced within": (
        "@dataclasses.dataclass;;class P:;;    a: int = 1;;o = P()",
        "return x, repr(o), f'{o}'",
        "P.__qualname__ = 'Q' | P.__repr__.__wrapped__ = lambda s: 'z'"),
    "exception with a metaclass": (
        "class T(type):;;    def __call__(c, *a): L.append(1); return super().__call__(*a);;"
        "class E(Exception, metaclass=T): pass;;L = []",
        "try: raise E(1);;except E as e: return x * len(L)",
        "L.clear()"),
    "names of attributes that are no names": (
        "class C: pass;;k = 1;;o = C()",
        "setattr(C, 'a b', k);;setattr(C, 'class', 2);;setattr(C, '\ufb01', 3);;"
        "return x * getattr(o, 'a b'), hasattr(C, 'fi')",
        "k = 2 | o.__dict__['a b'] = 5"),
    "attributes of a function, exchanged": (
        "def h(v): return v;;h.n = 1",
        "h.n += 1;;return x * h.n, hasattr(h, 'q')",
        "h.__dict__ = {'n': 50} | h.q = 3 | h.__dict__.pop('q') | h.__dict__ = collections.OrderedDict(n=5)"),
    "fields of named tuples, replaced": (
        "P = collections.namedtuple('P', 'a b');;class Q(P): pass;;q = Q(1, 2)",
        "r = Q(3, 4);;return x * r.a, r.b, q.a, r._replace(b=5), q._asdict(), r._asdict()",
        "Q.a = property(lambda s: 9) | Q.a = 5 | P.b = property(lambda s: 7) | P._fields = ('b', 'a')"),
    "named tuples that are no tuples": (
        "P = collections.namedtuple('P', 'a b');;class Q(P): pass;;q = Q(1, 2)",
        "r = Q(3, 4);;a, b = r;;return x * r[0] + b, bool(r), bool(q), list(r), [*q], 3 in r, r == (3, 4), r < (5,), "
        "r + (1,), len(r), q[0], r.index(4)",
        "Q.__getitem__ = lambda s, i: 9 | Q.__len__ = lambda s: 7 | Q.__iter__ = lambda s: iter((8, 9)) | "
        "Q.__eq__ = lambda s, o: 5 | Q.__add__ = lambda s, o: 8 | Q.__bool__ = lambda s: False | "
        "Q.index = lambda s, v: 77"),
    "dict with a truth of its own": (
        "class M(dict): pass;;D = M(a=1)",
        "m = M();;m['a'] = 1;;m |= {'b': 2};;return x if m else -x, bool(D), not m, len(m)",
        "M.__bool__ = lambda s: False | D.clear() | M.__ior__ = lambda s, o: s | del M.__bool__"),
    "order of a dict that sees deletions": (
        "class M(collections.OrderedDict):;;    def __delitem__(self, k):;;        L.append(k);;"
        "        super().__delitem__(k);;L = [];;D = M(a=1, b=2)",
        "del D['a'];;D['a'] = 5;;return x * len(D), len(L)",
        "D['z'] = 1 | del M.__delitem__ | L = []"),
    "dicts that change under their iterators": (
        "D = {'a': 1, 'b': 2};;O = collections.OrderedDict(a=1, b=2);;k = 'c'",
        "r, its = [], [iter(D), iter(D), iter(O)];;r.append(next(its[0]));;D[k] = O[k] = 1;;"
        "for it in [*its, *its]:;;    try: r.append(next(it));;    except Exception as e: r.append(str(e));;"
        "D.pop('c', 0);;try: r.append(next(its[0]));;except RuntimeError as e: r.append(str(e));;return x, r",
        "D.clear() | k = 'a' | O.clear()"),
    "bisection of what is no sequence": (
        "import bisect;;E = {0: 1, 1: 3};;k = 2",
        "try: return x * bisect.bisect(E, k);;except TypeError as e: return x, str(e)",
        "E = (i for i in [1, 3]) | E = [1, 2] | k = 9"),
    "lists and numbers of numpy": (
        "import numpy as np;;k = np.int64(2)",
        "a, b, t = [1], [1], (1, 2);;c, d = a, b;;a *= k;;b += np.arange(2);;t *= k;;return x, c, c is a, d, d is b, t",
        "k = np.int64(0) | k = 3"),
    "texts of numbers of numpy": (
        "import numpy as np;;k = np.float64(0.5)",
        "return x, f'{k} {k!r} {k:.3f}', str([k]), '%r' % (k,), '%s' % k, '{!r}'.format(k), "
        "repr({'a': k}), k.__repr__()",
        "np.set_printoptions(legacy='1.13') | k = np.float32(0.1) | np.set_printoptions(legacy=False) | k = 0.5"),
    "numpy functions that write": (
        "import numpy as np;;class C: dtype = np.dtype('f4');;k = 1",
        "a = np.zeros(3);;np.add(a, k, a);;b = a.clip(0, 1);;np.clip(b, 0, 0.5, b);;"
        "return x * float(a.sum()), float(b.sum()), np.zeros(2, dtype=C).nbytes",
        "k = 2 | C.dtype = np.dtype('f8')"),
    "arrays that no tensor lies over": (
        "import numpy as np;;A = np.ones(3, 'f4')",
        "return torch.tensor(A) * x, torch.from_numpy(A) + 1",
        "A.flags.writeable = False | A = np.ones(3, 'f4')[::-1] | A = np.ones(3, '>f4') | A = np.ones(3, 'f4')"),
    "descriptors that become others": (
        "class D:;;    def __get__(self, o, t): return 3;;class C: d = D();;o = C();;o.__dict__['d'] = 4",
        "return x * o.d",
        "D.__set__ = lambda s, o, v: None | del D.__get__ | D.__get__ = lambda s, o, t: 6"),
    "exception that watches its attributes": (
        "class E(Exception): pass",
        "try: raise E(1);;except E as e:;;    e.k = 2;;    return x * e.k, hasattr(e, 'z')",
        "E.k = property(lambda s: 3) | E.z = 1 | E.__getattribute__ = lambda s, n: 5"),
    "list that is looked at while it is sorted": (
        "class C:;;    def __init__(self, k): self.k = k;;    def __lt__(self, o):;;        R.append(len(L));;"
        "        return self.k < o.k;;R, L, k = [], [C(2), C(1)], 0",
        "try: L.sort(key=lambda v: L.append(v) or v if k else v);;except ValueError as e: return x, str(e), len(L);;"
        "return x, [c.k for c in L], R",
        "L.append(C(0)) | k = 1 | C.__lt__ = lambda s, o: 1 / 0"),
    "branches on a list of elements": (
        "w = torch.tensor([1, 2])",
        "return [x * 2 if v > 1 else x for v in w.tolist()]",
        "w.add_(1) | w = torch.tensor([]) | w = torch.tensor([0., 9.])"),
    "lists of elements": (
        "w = torch.tensor([1, 2])",
        "l = w.tolist();;w.add_(1);;l.append(9);;m = w.tolist();;return l, m, l is m, x",
        "w.add_(1) | w = torch.tensor([True])"),
    "out twice": (
        "o = torch.empty(3)",
        "torch.mul(x, 2, out=o);;torch.add(o, 1, out=o);;return o.sum(), o",
        "o = torch.empty(0) | o = torch.empty(3).double() | o = torch.empty(6)[::2] | "
        "o = torch.ones(3, requires_grad=True) | o = x0 | o = torch.empty(1).expand(3)"),
    "data written": (
        "w = torch.ones(3, requires_grad=True)",
        "w.data -= 0.1 * x;;w.data.mul_(2);;return w * 1",
        "w = torch.ones(3) | w = torch.ones(1, requires_grad=True) | w = (w * 2)"),
    "hook for a while": (
        "w = torch.ones(3, requires_grad=True);;k = 2;;L = []",
        "y = w * x;;h = y.register_hook(lambda g: L.append(k) or g * k);;w.grad = None;;y.sum().backward();;"
        "h.remove();;return w.grad",
        "k = 3 | L = () | k = 2.5"),
    "Function": (
        "k = 2;;class F(torch.autograd.Function):;;    @staticmethod;;    def forward(ctx, v):;;"
        "        ctx.save_for_backward(v); ctx.j = k;;        return v * k;;    @staticmethod;;"
        "    def backward(ctx, g):;;        v, = ctx.saved_tensors;;        return g * v * ctx.j * k;;"
        "w = torch.ones(3, requires_grad=True)",
        "y = F.apply(w * x);;w.grad = None;;y.sum().backward();;return w.grad",
        "k = 3 | F.backward = staticmethod(lambda ctx, g: g) | w = torch.ones(3) | "
        "F.forward = staticmethod(lambda ctx, v: v + 0)"),
    "Function of two": (
        "class F(torch.autograd.Function):;;    @staticmethod;;    def forward(ctx, a, b):;;"
        "        ctx.save_for_backward(a, b);;        return a * b;;    @staticmethod;;    def backward(ctx, g):;;"
        "        a, b = ctx.saved_tensors;;"
        "        return (g * b if ctx.needs_input_grad[0] else None), (g * a if ctx.needs_input_grad[1] else None);;"
        "v = torch.ones(3, requires_grad=True);;w = torch.ones(3)",
        "y = F.apply(v, w * x);;y.sum().backward();;return v.grad, w.grad",
        "w.requires_grad_() | v.requires_grad_(False) | v.grad = None"),
    "context that holds a dict": (
        "class F(torch.autograd.Function):;;    @staticmethod;;    def forward(ctx, v, o):;;"
        "        ctx.o = o; ctx.save_for_backward(v);;        return v * o['k'];;    @staticmethod;;"
        "    def backward(ctx, g):;;        v, = ctx.saved_tensors;;        return g * ctx.o['k'] * v.sum(), None;;"
        "o = {'k': 2};;w = torch.ones(3, requires_grad=True)",
        "return F.apply(w * x, o)",
        "w.grad = None; y = f(x0); o['k'] = 5; y.sum().backward() | w.grad = None; f(x0).sum().backward() | "
        "o = {'k': 7}; w.grad = None; f(x0).sum().backward()"),
    "Function that reads a global": (
        "class F(torch.autograd.Function):;;    @staticmethod;;    def forward(ctx, v, *a):;;"
        "        ctx.save_for_backward(v); ctx.j = j;;        return v * j;;    @staticmethod;;"
        "    def backward(ctx, g):;;        v, = ctx.saved_tensors;;        return g * v * j;;j = 2.0;;"
        "W = torch.ones(3);;w = torch.ones(3, requires_grad=True)",
        "return F.apply(w * x)",
        "w.grad = None; y = f(x0); j = 3.0; y.sum().backward() | "
        "w.grad = None; y = f(x0); j = 4.0; y.sum().backward() | "
        "w.grad = None; y = f(x0); W.mul_(2); y.sum().backward() | "
        "w.grad = None; y = f(x0); W = torch.zeros(3); y.sum().backward()"),
    "mask written": (
        "w = torch.zeros(3);;k=1.5",
        "w[x > k] = x[x > k] * 2;;w.masked_fill_(x < 2, 7);;return w",
        "k = 9.0 | k = 0.0 | w = torch.zeros(3).long() | w = torch.zeros(2)"),
    "gradient through a mask": (
        "w = torch.ones(3, requires_grad=True);;k=1.5",
        "w.grad = None;;(w * x)[x > k].pow(2).sum().backward();;return w.grad",
        "k = 9.0 | k = 0.0 | w = torch.ones(3)"),
    "sizes of sizes": (
        "k = 1.5",
        "y = x[x > k];;z = y.unique();;q = (z * 2).nonzero();;return y.shape, z, q, y.numel() - z.numel()",
        "k = 9.0 | k = 0.0 | x0 = torch.tensor([2., 2., 0., 2.])"),
    "vmap": (
        "k = 2;;w = torch.ones(3)",
        "return torch.vmap(lambda v: v * k + w)(x)",
        "k = 3 | w = torch.zeros(2) | w.add_(1) | torch.vmap = torch.vmap"),
    "grad of a function with effects": (
        "L = [];;w = torch.zeros(3)",
        "def g(v):;;    L.append(v.dim());;    w.add_(v.detach());;    return (v * v).sum();;"
        "r = torch.func.grad(g)(x);;return r, w * 1",
        "L = () | w = torch.zeros(2) | w = x0"),
    "jvp": (
        "k = 3;;L = []",
        "L.append(1);;return torch.func.jvp(lambda v: v.pow(k) * len(L), (x,), (torch.ones_like(x),))",
        "k = 2 | L = () | x0 = torch.ones(3, requires_grad=True)"),
    "vjp": (
        "k = 2",
        "out, f2 = torch.func.vjp(lambda a: (a * k, a.sum()), x);;"
        "return out, f2((x, x.sum())), f2((x * 0, x.sum() * 0))",
        "k = 3.0 | x0.requires_grad_()"),
    "numbers of Python": (
        "import random;;random.seed(3);;k = 0.5",
        "return x * random.random() if random.random() < k else x + random.randint(0, 5)",
        "random.seed(9) | k = 0.0 | random.seed(1); k = 1.0 | random.random = random.random"),
    "generators of Python": (
        "import random;;random.seed(1);;g = random.Random(1);;h = g",
        "return x * g.random() + h.random()",
        "h = random.Random(2) | h = random | g.seed(7) | del g.gauss_next"),
}
