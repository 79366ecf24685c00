<?php
// Small pieces of what PHP's interpreter does all day, in turn, for as long as a client on the port asks for: the score
// is rounds a second. They are trimtab's own; PHPBench, which lamp2016 used, is not packaged anywhere.
[$_, $port] = $argv;

function calls(int $n): int { return $n < 2 ? $n : calls($n - 1) + calls($n - 2); }

class Item
{
    public function __construct(public int $id, public float $price) {}
    public function total(int $count): float { return $this->price * $count; }
}

function round_of_all(int $seed): float
{
    $sum = calls(12);
    $list = [];
    for ($i = 0; $i < 300; $i++) {
        $list[] = ($i * 7919 + $seed) % 1009;
    }
    sort($list);
    $sum += array_sum(array_map(fn($x) => $x * 2, array_filter($list, fn($x) => $x % 3 === 0)));
    $words = [];
    for ($i = 0; $i < 60; $i++) {
        $words["key$i"] = str_repeat(chr(97 + $i % 26), 8) . $i;
    }
    ksort($words);
    $text = implode(' ', $words);
    $sum += preg_match_all('/([a-f]+)(\d+)/', $text) + strlen(strrev(strtoupper($text)));
    $sum += strlen(json_encode(json_decode(json_encode($words), true)));
    $sum += hexdec(substr(md5($text . $seed), 0, 6)) + crc32($text) % 97;
    for ($i = 0; $i < 60; $i++) {
        $sum += (new Item($i, 1.5 * $i))->total(3) + sqrt($i) + sin($i);
    }
    return $sum;
}

$server = stream_socket_server("tcp://127.0.0.1:$port", $code, $said) or exit("cannot listen: $said\n");
while ($client = @stream_socket_accept($server, -1)) {
    $seconds = (float)fgets($client);
    $rounds = 0;
    $checked = 0.0;
    $begin = hrtime(true);
    while (($took = hrtime(true) - $begin) < $seconds * 1e9) {
        $checked += round_of_all($rounds++);
    }
    fwrite($client, $seconds > 0 ? sprintf("%.3f\n", $rounds * 1e9 / $took) : "ready\n");
    fclose($client);
}
