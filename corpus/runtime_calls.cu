// Calls into the device runtime: printf (vprintf), malloc and free, assert, trap, clocks.
// oriole: arch=compute_80
// oriole: arch=compute_90 options=-lineinfo tag=lineinfo

extern "C" __global__ void print_values(const int* v, const double* d, int n) {
    int i = threadIdx.x;
    if (i < n) printf("value %d of %d: %d %f %s %llx\n", i, n, v[i], d[i], v[i] & 1 ? "odd" : "even", (unsigned long long)v);
    if (i == 0) printf("done\n");
}

struct Node { Node* next; int value; };

extern "C" __global__ void linked_list(int* out, int length) {
    Node* head = nullptr;
    for (int i = 0; i < length; ++i) {
        Node* node = (Node*)malloc(sizeof(Node));
        if (!node) break;
        node->next = head;
        node->value = i * i;
        head = node;
    }
    int sum = 0;
    while (head) { Node* next = head->next; sum += head->value; free(head); head = next; }
    out[threadIdx.x] = sum;
    int* scratch = new int[length];
    scratch[length - 1] = sum;
    out[threadIdx.x + 32] = scratch[length / 2];
    delete[] scratch;
}

extern "C" __global__ void checked(const int* in, int* out, long long* when) {
    long long start = clock64();
    int i = threadIdx.x;
    assert(in[i] >= 0 && "inputs are not negative");
    out[i] = in[i] / 2;
    if (in[i] > 1000000) __trap();
    if (in[i] == 999999) __brkpt();
    __nanosleep(100);
    when[i] = clock64() - start + clock();
    if (in[i] == 42) asm volatile("exit;");
    out[i] += (int)(__isGlobal(in) + __isShared(in) + __isLocal(out));
}
