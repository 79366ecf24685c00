"""A private Tomcat on loopback: Debian's own configuration in a directory of its own, confined where that can be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from trimtab import own
from trimtab.errors import UsageError
from trimtab.files import write_whole
from trimtab.testbed._private import worker_user
from trimtab.testbed._swapped import SwappedServer
from trimtab.testbed.cgroup import Limits

HOME = Path("/usr/share/tomcat10")
DRIVER = Path("/usr/share/java/mariadb-java-client.jar")
UNIX_SOCKETS = (Path("/usr/share/java/jna.jar"), Path("/usr/share/java/jna-platform.jar"))
"""Libraries with which this driver connects to a Unix socket (libjna-java, libjna-platform-java)."""
_CONNECTOR = '<Connector port="8080" protocol="HTTP/1.1"'
_SERVICE = '<Service name="Catalina">'
_OWN_TMP = ("/usr/bin/unshare", "--mount", "/bin/sh", "-c", 'mount -t tmpfs tmpfs /tmp && exec "$@"', "sh")


@dataclass(frozen=True)
class Jdbc:
    """A database that the web application reaches through a pool of Tomcat's own, `jdbc/shop`.

    Args:
        url: such as "jdbc:mariadb://127.0.0.1:3306/shop", or "jdbc:mariadb://localhost/shop?localSocket=/run/...".
        user: the database's user.
        password_file: holds the password, and nothing else but a newline; None for a user without one.
        dbcp: whether it is Tomcat's other pool, the one that is used where no factory is named.
        driver: class of the driver; that of MariaDB is on the class path.
    """

    url: str
    user: str
    password_file: Path | None = None
    dbcp: bool = False
    driver: str = "org.mariadb.jdbc.Driver"


@dataclass(frozen=True)
class TomcatSpec(Limits):
    """A private Tomcat and its limits. Its connector is the one that Debian ships.

    Args:
        webapp: a war, or the directory of one; None for no application.
        context: the path of that application.
        heap_bytes: the most that its heap may take; None for Java's own default.
        jdbc: the application's database; None for none.
        connector: further attributes of the connector, in Tomcat's words.
        executor: attributes of an executor that connectors share; None where each has its own threads.
        ajp: whether there is an AJP connector too.
        http2: whether the connector speaks HTTP/2 too, to clients who ask for it.
        java_options: further words for Java.
        service: whether it has a /tmp of its own and may bind low ports, as by Debian's unit; needs root.
    """

    webapp: Path | None = None
    context: str = "/shop"
    heap_bytes: int | None = None
    jdbc: Jdbc | None = None
    connector: tuple[tuple[str, str], ...] = ()
    executor: tuple[tuple[str, str], ...] | None = None
    ajp: bool = False
    http2: bool = False
    java_options: tuple[str, ...] = ()
    service: bool = False


class TomcatTestbed(SwappedServer[TomcatSpec]):
    """A private Tomcat; it answers once its applications are there. As root it is run by an unprivileged user."""

    program_name = "tomcat"
    ports_wanted = 2
    _java = ""

    @property
    def base(self) -> Path:
        """Its CATALINA_BASE."""
        return self.directory / "base"

    def require_installed(self) -> None:
        """Finds Java and Tomcat.

        Raises:
            UsageError: one of them is not installed.
        """
        java = own.program("java")
        if java is None or not (HOME / "bin" / "catalina.sh").exists():
            raise UsageError("Tomcat is not installed; install the package tomcat10")
        if self.spec.jdbc is not None and not DRIVER.exists():
            raise UsageError("the driver of MariaDB is not installed; install the package libmariadb-java")
        self._java = os.path.realpath(java)

    def furnish(self) -> None:
        """Writes its directories and the application."""
        (self.directory / "logs").mkdir(mode=0o755)
        for name in ("", "lib", "conf", "conf/Catalina", "conf/Catalina/localhost", "webapps"):
            (self.base / name).mkdir(mode=0o755)
        for name in ("logs", "work", "temp"):
            self._owned(self.base / name)
        for file in (HOME / "etc").iterdir():
            shutil.copy(file, self.base / "conf")
        if self.spec.jdbc is not None:
            for library in filter(Path.exists, (DRIVER, *UNIX_SOCKETS)):
                (self.base / "lib" / library.name).symlink_to(library)
        if self.spec.webapp is not None:
            self._install(self.spec.webapp)

    def configured(self, ports: Sequence[int]) -> list[str]:
        """Writes its configuration, and gives its command."""
        shipped = (HOME / "etc" / "server.xml").read_text(encoding="utf-8")
        write_whole(self.base / "conf" / "server.xml", self._server(shipped, ports))
        heap = self.spec.heap_bytes
        options = [*([f"-Xmx{heap}"] if heap else []), *self.spec.java_options]
        environment = {
            "CATALINA_HOME": os.fspath(HOME),
            "CATALINA_BASE": os.fspath(self.base),
            "CATALINA_OPTS": " ".join(options),
            "JAVA_OPTS": "-Djava.awt.headless=true",
            "JRE_HOME": os.fspath(Path(self._java).parent.parent),
            "PATH": own.SYSTEM_PATH,
        }
        words = [f"{name}={value}" for name, value in environment.items()]
        command = ["/usr/bin/env", "-i", *words, os.fspath(HOME / "bin" / "catalina.sh"), "run"]
        return [*_dropping(self.spec.service), *command]

    def answers(self) -> bool:
        """Tries once to get any answer.

        Raises:
            OSError: nothing listens yet.
        """
        return self.status("/") > 0

    def _owned(self, path: Path) -> None:
        """A directory for its own files."""
        path.mkdir(mode=0o750)
        if worker := worker_user():
            shutil.chown(path, *worker)

    def _install(self, webapp: Path) -> None:
        """Puts the application and its descriptor in place."""
        name = self.spec.context.strip("/").replace("/", "#") or "ROOT"
        target = self.directory / ("app" if webapp.is_dir() else "app.war")
        if webapp.is_dir():
            shutil.copytree(webapp, target)
        else:
            shutil.copy(webapp, target)
        for path in (target, *target.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        description = self.base / "conf" / "Catalina" / "localhost" / f"{name}.xml"
        jdbc = self.spec.jdbc
        resource = "" if jdbc is None else _element("Resource", _resource(jdbc))
        # No library beside the application has tags or annotations: to look through them takes a third of a start.
        resource += _element("JarScanner", (("scanClassPath", "false"),))
        # It holds the database's password.
        write_whole(description, f"<Context docBase={quoteattr(os.fspath(target))}>{resource}</Context>\n", 0o640)
        if worker := worker_user():
            shutil.chown(description, group=worker[1])

    def _server(self, shipped: str, ports: Sequence[int]) -> str:
        """Debian's server.xml, on our ports and on loopback."""
        spec = self.spec
        shared = (("executor", "shared"),) if spec.executor is not None else ()
        words = {"protocol": "HTTP/1.1", **dict((*spec.connector, *shared))}
        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in words.items())
        ours = f'<Connector address="127.0.0.1" port="{ports[0]}"{attributes}'
        more = ""
        if spec.executor is not None:
            more += _element("Executor", (("name", "shared"), *spec.executor))
        if spec.ajp:
            more += _element(
                "Connector",
                (
                    ("protocol", "AJP/1.3"),
                    ("address", "127.0.0.1"),
                    ("port", str(ports[1])),
                    ("secretRequired", "false"),
                ),
            )
        before, connector, after = shipped.partition(_CONNECTOR)
        assert connector and _SERVICE in before, f"{HOME}/etc/server.xml is not the one that Debian ships"
        if spec.http2:
            own_words, _, after = after.partition("/>")
            upgrade = _element("UpgradeProtocol", (("className", "org.apache.coyote.http2.Http2Protocol"),))
            after = f"{own_words}>{upgrade}</Connector>{after}"
        return before.replace(_SERVICE, _SERVICE + more) + ours + after


def _dropping(service: bool) -> list[str]:
    """Command prefix that runs a command as an unprivileged user, and ends it with its parent.

    Args:
        service: whether it keeps the capabilities that Debian's unit leaves to Tomcat.
    """
    worker = worker_user()
    if worker is None:
        return []
    user, group = worker
    low_ports = "+net_bind_service"
    kept = ["--inh-caps", low_ports, "--ambient-caps", low_ports, "--no-new-privs"] if service else []
    # The kernel forgets at a change of user that a process is to end with its owner.
    drop = [
        "/usr/bin/setpriv",
        "--pdeathsig",
        "TERM",
        "--reuid",
        user,
        "--regid",
        group,
        "--clear-groups",
        *kept,
        "--",
    ]
    return [*(_OWN_TMP if service else ()), *drop]


def _resource(jdbc: Jdbc) -> tuple[tuple[str, str], ...]:
    """Attributes of the pool's Resource element."""
    password = jdbc.password_file.read_text(encoding="utf-8").rstrip("\n") if jdbc.password_file else ""
    return (
        ("name", "jdbc/shop"),
        ("auth", "Container"),
        ("type", "javax.sql.DataSource"),
        *(() if jdbc.dbcp else (("factory", "org.apache.tomcat.jdbc.pool.DataSourceFactory"),)),
        ("driverClassName", jdbc.driver),
        ("url", jdbc.url),
        ("username", jdbc.user),
        ("password", password),
    )


def _element(name: str, attributes: tuple[tuple[str, str], ...]) -> str:
    return f"<{name}{''.join(f' {key}={quoteattr(value)}' for key, value in attributes)}/>"
