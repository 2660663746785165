// Backtracking without recursion: queens on a board by bits, Sudokus with candidates by masks, and cells of the Game of Life by bits.
#include "../timing.h"

__host__ __device__ inline int queens(int n, uint32_t columns, uint32_t left, uint32_t right, int row)
{
    uint32_t full = (1u << n) - 1, free[16], c[16], l[16], r[16];
    int depth = row, count = 0;
    c[depth] = columns, l[depth] = left, r[depth] = right, free[depth] = full & ~(columns | left | right);
    while (depth >= row) {
        uint32_t bit = free[depth] & (0 - free[depth]);
        if (!bit) {
            depth--;
            continue;
        }
        free[depth] ^= bit;
        uint32_t nc = c[depth] | bit, nl = (l[depth] | bit) << 1, nr = (r[depth] | bit) >> 1;
        if (depth == n - 1) {
            count++;
            continue;
        }
        depth++;
        c[depth] = nc, l[depth] = nl, r[depth] = nr, free[depth] = full & ~(nc | nl | nr);
    }
    return count;
}

// The first two rows are given by the thread.
__global__ void count_queens(int n, unsigned *total)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * n)
        return;
    uint32_t a = 1u << at / n, b = 1u << at % n;
    if (b & (a | a << 1 | a >> 1))
        return;
    unsigned found = queens(n, a | b, (a << 1 | b) << 1, (a >> 1 | b) >> 1, 2);
    atomicAdd(total, found);
}

// 32 cells in a word; `width` words in a row; the edges meet.
__host__ __device__ inline uint32_t live(const uint32_t *x, int width, int height, int i, int j)
{
    uint32_t sum0 = 0, sum1 = 0, sum2 = 0, own = 0;
    for (int d = -1; d <= 1; d++) {
        const uint32_t *row = x + (i + d + height) % height * width;
        uint32_t middle = row[j], before = row[(j + width - 1) % width], after = row[(j + 1) % width];
        uint32_t all[3] = {middle << 1 | before >> 31, middle >> 1 | after << 31, middle};
        for (int k = 0; k < (d ? 3 : 2); k++) {
            uint32_t carry = sum0 & all[k];
            sum0 ^= all[k];
            uint32_t next = sum1 & carry;
            sum1 ^= carry;
            sum2 |= next;
        }
        if (d == 0)
            own = middle;
    }
    return sum1 & ~sum2 & (sum0 | own);
}

__global__ void life(const uint32_t *x, uint32_t *y, int width, int height)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < width * height)
        y[at] = live(x, width, height, at / width, at % width);
}

// Rounds of elimination on Sudokus: a mask of candidates for each of 81 cells, a block of 96 threads for each.
__global__ void eliminate(const unsigned short *in, unsigned short *out)
{
    __shared__ unsigned short cells[81];
    int at = threadIdx.x, row = at / 9, column = at % 9, corner = row / 3 * 27 + column / 3 * 3;
    if (at < 81)
        cells[at] = in[blockIdx.x * 81 + at];
    bool again = true;
    while (__syncthreads_or(again)) {
        again = false;
        unsigned known = 0;
        if (at < 81)
            for (int i = 0; i < 9; i++)
                for (int other : {row * 9 + i, i * 9 + column, corner + i / 3 * 9 + i % 3})
                    if (other != at && __popc(cells[other]) == 1)
                        known |= cells[other];
        __syncthreads();
        if (at < 81 && (cells[at] & known) && __popc(cells[at]) > 1) {
            cells[at] &= ~known;
            again = true;
        }
    }
    if (at < 81)
        out[blockIdx.x * 81 + at] = cells[at];
}

int main()
{
    const int n = 11, width = 32, height = 256, puzzles = 512;
    suite::Device<unsigned> total(1);
    count_queens<<<4, 32>>>(n, total);
    suite::equal("queens", total.host()[0], 2680u);

    auto board = suite::words(width * height, 311), next = board;
    suite::Device<uint32_t> a(board), b(width * height);
    for (int step = 0; step < 10; step++) {
        life<<<width * height / 128, 128>>>(step % 2 ? b : a, step % 2 ? a : b, width, height);
        for (int i = 0; i < width * height; i++) {
            // By counting, without bits.
            uint32_t word = 0;
            for (int bit = 0; bit < 32; bit++) {
                int row = i / width, column = i % width * 32 + bit, sum = 0, own = 0;
                for (int dy = -1; dy <= 1; dy++)
                    for (int dx = -1; dx <= 1; dx++) {
                        int y = (row + dy + height) % height, x = (column + dx + width * 32) % (width * 32);
                        int alive = board[y * width + x / 32] >> x % 32 & 1;
                        dx || dy ? sum += alive : own = alive;
                    }
                word |= uint32_t(sum == 3 || (sum == 2 && own)) << bit;
            }
            next[i] = word;
        }
        std::swap(board, next);
    }
    suite::equal("life", a.host(), board);

    suite::Random random(312);
    std::vector<unsigned short> in(puzzles * 81), expected;
    for (int p = 0; p < puzzles; p++)
        for (int i = 0; i < 81; i++) {
            int digit = (i / 9 * 3 + i / 27 + i % 9) % 9;
            in[p * 81 + i] = random.below(3) ? 1 << (digit + p) % 9 : 511;
        }
    expected = in;
    for (int p = 0; p < puzzles; p++)
        for (bool again = true; again;) {
            again = false;
            for (int i = 0; i < 81; i++)
                for (int j = 0; j < 81; j++) {
                    unsigned short &cell = expected[p * 81 + i], other = expected[p * 81 + j];
                    bool sees = i != j && (i / 9 == j / 9 || i % 9 == j % 9 || (i / 27 == j / 27 && i % 9 / 3 == j % 9 / 3));
                    if (sees && !(other & (other - 1)) && (cell & other) && (cell & (cell - 1))) {
                        cell &= ~other;
                        again = true;
                    }
                }
        }
    suite::Device<unsigned short> puzzle(in), solved(puzzles * 81);
    auto solve = [&] { eliminate<<<puzzles, 96>>>(puzzle, solved); };
    solve();
    suite::equal("Sudokus", solved.host(), expected);
    suite::timed("queens", [&] { count_queens<<<4, 32>>>(n, total); });
    suite::timed("life", [&] { life<<<width * height / 128, 128>>>(a, b, width, height); });
    suite::timed("eliminate", solve);
    return suite::finish();
}
