#!/usr/bin/perl
# A page of known service time: sleeps service_ms milliseconds, then sends a body of `bytes` bytes.
use strict;
use warnings;

my %query = map { my ($k, $v) = split /=/, $_, 2; ($k, $v // '') } split /&/, $ENV{QUERY_STRING} // '';
sub number { my ($name, $default) = @_; return ($query{$name} // '') =~ /\A(\d{1,8})\z/ ? $1 : $default; }

my $service_ms = number('service_ms', 0);
my $bytes = number('bytes', 100);
select undef, undef, undef, $service_ms / 1000 if $service_ms;
print "Content-Type: text/plain\r\nContent-Length: $bytes\r\n\r\n", 'x' x $bytes;
