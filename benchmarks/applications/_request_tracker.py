"""Debian's Request Tracker 5 in mod_perl, with SQLite: a mail and ticket system, whose workers are of Perl and large.

Apache is configured as Debian's rt5-apache2 has it (apache2-modperl2.conf): its first process loads all of the
application before it has a worker, and does so again in each reload. Whoever asks is the agent that is logged in, by
WebRemoteUserAuth, and looks at tickets; each look is a session and a line in the database, as RT has them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from _site import MIB, Site, checked

from trimtab import own
from trimtab.errors import TrimtabError
from trimtab.lab._applications import give, ran
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed, module_directory
from trimtab.workloads._population import Url, zipf

SHIPPED = Path("/usr/share/request-tracker5")
MARK = "bench-request-tracker"
MEMORY_BYTES = 3072 * MIB
TICKETS, REPLIES = 20, 5
FILES = ("images/bpslogo.png", "images/favicon.png", "images/request-tracker-logo.svg")
SITE_CONFIGURATION = """
Set($rtname, 'trimtab'); Set($Organization, 'trimtab'); Set($Timezone, 'UTC');
Set($WebPath, '/rt'); Set($WebDomain, '127.0.0.1'); Set($WebRemoteUserAuth, 1); Set($ShowHistory, 'immediately');
Set($DatabaseType, 'SQLite'); Set($DatabaseName, '{data}/rtdb');
Set($LogToSyslog, undef); Set($LogToSTDERR, 'error'); Set($MailCommand, 'testfile');
$RT::VarPath = '{data}'; $RT::MasonDataDir = '{data}/mason'; $RT::MasonSessionDir = '{data}/sessions';
1;
"""
APACHE_CONFIGURATION = """
<IfModule !perl_module>
LoadModule perl_module {modules}/mod_perl.so
</IfModule>
PerlSetEnv RT_SITE_CONFIG {configuration}
PerlSetEnv RT_SITE_CONFIG_DIR {none}
Alias /rt {shipped}/html
<Directory {shipped}/html>
    Require all granted
</Directory>
<Location /rt>
    SetHandler modperl
    PerlSetEnv REMOTE_USER root
    PerlResponseHandler Plack::Handler::Apache2
    PerlSetVar psgi_app {shipped}/libexec/rt-server
</Location>
<Perl>
  use Plack::Handler::Apache2;
  Plack::Handler::Apache2->preload("{shipped}/libexec/rt-server");
</Perl>
"""
FILL = """
use strict; use warnings; use lib '{shipped}/lib';
use RT; RT->LoadConfig; RT->Init;
my $agent = RT::CurrentUser->new; $agent->Load('root');
my $scrips = RT::Scrips->new(RT->SystemUser); $scrips->UnLimit;
while (my $one = $scrips->Next) {{ $one->SetDisabled(1) }}
for my $number (1 .. {tickets}) {{
    my $text = "This is ticket $number. " . 'The wind moves the tab, the tab moves the rudder. ' x 20;
    my $first = MIME::Entity->build(Type => 'text/plain', Data => $text);
    my $ticket = RT::Ticket->new($agent);
    my ($id, undef, $said) = $ticket->Create(Queue => 'General', Subject => "Ticket $number", MIMEObj => $first,
        Requestor => ["user$number\\@example.org"]);
    die $said unless $id;
    $ticket->Correspond(Content => "Reply $_. $text") for 1 .. {replies};
    print "$id ";
}}
"""


class RequestTracker(ApacheTestbed):
    """Apache with Request Tracker in it."""

    def furnish(self) -> None:
        """Makes its database, its configuration and Apache's."""
        super().furnish()
        data, none = self.directory / "rt", self.directory / "rt-none"
        # Debian has obj too: the first process, which is root, would make it its own.
        for made in (data, none, data / "mason", data / "mason" / "obj", data / "sessions"):
            made.mkdir(mode=0o755)
        configuration = self.directory / "RT_SiteConfig.pm"
        configuration.write_text(SITE_CONFIGURATION.format(data=data), encoding="ascii")
        environment = {"RT_SITE_CONFIG": os.fspath(configuration), "RT_SITE_CONFIG_DIR": os.fspath(none)}
        setup = own.required("request-tracker5", "rt-setup-database-5")
        ran([setup, "--action", "init", "--skip-create", "--datadir", f"{SHIPPED}/etc"], environment)
        fill = FILL.format(shipped=SHIPPED, tickets=TICKETS, replies=REPLIES)
        tickets = ran([own.required("perl", "perl"), "-e", fill], environment).split()
        if len(tickets) != TICKETS:
            raise TrimtabError(f"Request Tracker has {len(tickets)} tickets in place of {TICKETS}")
        give(data)
        text = APACHE_CONFIGURATION.format(
            modules=module_directory(), configuration=configuration, none=none, shipped=SHIPPED
        )
        (self.snippet_directory / "rt.conf").write_text(text, encoding="ascii")


@contextlib.contextmanager
def serving(spec: ApacheSpec, behind_cores: float) -> Iterator[tuple[ApacheTestbed, Site]]:
    """Starts it.

    Args:
        spec: its Apache.
        behind_cores: of no account: its database is a file.
    """
    tickets = zipf([Url(f"/rt/Ticket/Display.html?id={number}") for number in range(1, TICKETS + 1)], 1.0)
    site = Site(tickets, tuple(Url(f"/rt/static/{name}") for name in FILES))
    with RequestTracker(spec) as bed:
        checked(bed, site.pages[0], "This is ticket 1.")
        yield bed, site
