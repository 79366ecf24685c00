<?php
// A page that costs what its query says: cpu_us of CPU time, memory_kb of memory written to, and wait_us of waiting, as
// for a database. lock_percent of both is spent under a lock that one worker holds at a time. cold_kb is memory that a
// worker takes with its first page, keeps, and touches no more; it needs ffi.enable.
// The memory is taken in many small pieces, so that PHP's allocator serves it from chunks that it keeps for the
// next request: this is what makes a worker of a real application big.
$cpu_us = max(0, (int)($_GET['cpu_us'] ?? 0));
$memory_kb = max(0, (int)($_GET['memory_kb'] ?? 0));
$wait_us = max(0, (int)($_GET['wait_us'] ?? 0));
$locked = min(100, max(0, (int)($_GET['lock_percent'] ?? 0))) / 100;
$cold_bytes = 1024 * max(0, (int)($_GET['cold_kb'] ?? 0));
$begin = getrusage();

$held = [];
$piece = random_bytes(1024) . str_repeat("trimtab ", intdiv(1660, 8));
for ($bytes = 0; $bytes < $memory_kb * 1024; $bytes += 2688) {
    // A copy, not a reference: each piece fills a bin of 2688 bytes beside its header of 24.
    $held[] = substr_replace($piece, chr($bytes & 127), 0, 1);
}

function used_us(array $since): float
{
    $now = getrusage();
    $seconds = $now['ru_utime.tv_sec'] - $since['ru_utime.tv_sec'] + $now['ru_stime.tv_sec'] - $since['ru_stime.tv_sec'];
    return $seconds * 1e6 + $now['ru_utime.tv_usec'] - $since['ru_utime.tv_usec']
        + $now['ru_stime.tv_usec'] - $since['ru_stime.tv_usec'];
}

function keep_cold(int $bytes, string $piece): void
{
    // PHP forgets everything between requests, and the process's environment does not.
    $libc = FFI::cdef('char *getenv(const char *); int setenv(const char *, const char *, int);');
    if ($libc->getenv('TRIMTAB_COLD') !== null) {
        return;
    }
    $libc->setenv('TRIMTAB_COLD', '1', 1);
    $kept = FFI::new("char[$bytes]", false, true);
    for ($at = 0; $at + strlen($piece) <= $bytes; $at += strlen($piece)) {
        FFI::memcpy(FFI::addr($kept[$at]), $piece, strlen($piece));
    }
}

function work(float $cpu_us, float $wait_us, string &$digest): void
{
    $from_us = used_us($GLOBALS['begin']);
    while (used_us($GLOBALS['begin']) - $from_us < $cpu_us) {
        for ($i = 0; $i < 32; $i++) {
            $digest = md5($digest);
        }
    }
    $until_ns = hrtime(true) + (int)(1000 * $wait_us);
    while (($left_ns = $until_ns - hrtime(true)) > 0) {
        usleep(intdiv($left_ns, 1000) + 1);
    }
}

if ($cold_bytes > 0) {
    keep_cold($cold_bytes, $piece);
}
$digest = 'trimtab';
work((1 - $locked) * $cpu_us, (1 - $locked) * $wait_us, $digest);
if ($locked > 0) {
    $lock = fopen(__FILE__, 'r');
    flock($lock, LOCK_EX);
    work($locked * $cpu_us, $locked * $wait_us, $digest);
    flock($lock, LOCK_UN);
}
header('Content-Type: text/html');
$line = "<p>$digest: " . count($held) . " pieces</p>\n";
echo "<!DOCTYPE html><title>dynamic</title>\n", str_repeat($line, 100);
