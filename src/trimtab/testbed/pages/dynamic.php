<?php
// A page that costs what its query says: cpu_us of CPU time, memory_kb of memory written to, and wait_us of waiting, as
// for a database.
// The memory is taken in many small pieces, so that PHP's allocator serves it from chunks that it keeps for the
// next request: this is what makes a worker of a real application big.
$cpu_us = max(0, (int)($_GET['cpu_us'] ?? 0));
$memory_kb = max(0, (int)($_GET['memory_kb'] ?? 0));
$begin = getrusage();

$held = [];
$piece = random_bytes(1024) . str_repeat("trimtab ", 1660 / 8);
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

$filled_us = used_us($begin);
$digest = 'trimtab';
while (used_us($begin) - $filled_us < $cpu_us) {
    for ($i = 0; $i < 32; $i++) {
        $digest = md5($digest);
    }
}
$until_ns = hrtime(true) + 1000 * max(0, (int)($_GET['wait_us'] ?? 0));
while (($left_ns = $until_ns - hrtime(true)) > 0) {
    usleep(intdiv($left_ns, 1000) + 1);
}
header('Content-Type: text/html');
$line = "<p>$digest: " . count($held) . " pieces</p>\n";
echo "<!DOCTYPE html><title>dynamic</title>\n", str_repeat($line, 100);
