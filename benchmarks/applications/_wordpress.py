"""Debian's WordPress in mod_php, with a MariaDB behind it."""

from __future__ import annotations

import contextlib
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from _site import MIB, Site, checked

from trimtab import own
from trimtab.errors import TrimtabError
from trimtab.lab._applications import INSTALL_S, ran
from trimtab.plants.mariadb.private import MariadbSpec, MariadbTestbed
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed
from trimtab.workloads._population import Url, zipf

SHIPPED = Path("/usr/share/wordpress")
MARK = "bench-wordpress"
MEMORY_BYTES = 256 * MIB
POSTS = 40
FILES = ("css/dist/block-library/style.min.css", "js/wp-emoji-release.min.js")
CONFIGURATION = """<?php
define('DB_NAME', '{database}'); define('DB_USER', '{user}'); define('DB_PASSWORD', '{password}');
define('DB_HOST', '127.0.0.1:{port}'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
foreach (array('AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE') as $of) {{
    define($of . '_KEY', 'private'); define($of . '_SALT', 'private');
}}
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_HOME', 'http://127.0.0.1:' . ($_SERVER['SERVER_PORT'] ?? 80) . '/wp'); define('WP_SITEURL', WP_HOME);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
"""
FILL = """
require '{root}/wp-load.php';
update_option('permalink_structure', '');
for ($i = 1; $i <= {posts}; $i++) {{
    $text = str_repeat("<p>The wind moves the tab, the tab moves the rudder, and this is post $i.</p>", 60);
    $id = wp_insert_post(['post_title' => "Post $i", 'post_content' => $text, 'post_status' => 'publish']);
    for ($c = 0; $c < 5; $c++) {{
        wp_insert_comment(['comment_post_ID' => $id, 'comment_content' => "Comment $c", 'comment_approved' => 1]);
    }}
    echo $id, ' ';
}}
"""


class WordPress(ApacheTestbed):
    """Apache with a copy of WordPress.

    Args:
        spec: the server.
        database: its MariaDB.
    """

    def __init__(self, spec: ApacheSpec, database: MariadbTestbed) -> None:
        self._database = database
        super().__init__(spec)

    @property
    def root(self) -> Path:
        """Where the copy is."""
        return self.directory / "htdocs" / "wp"

    def furnish(self) -> None:
        """Copies it, with a configuration of its own."""
        super().furnish()
        shutil.copytree(SHIPPED, self.root, ignore_dangling_symlinks=True, ignore=shutil.ignore_patterns(".ht*"))
        database = self._database
        assert database.password_file is not None
        text = CONFIGURATION.format(
            database=database.spec.database,
            user=database.spec.user,
            password=database.password_file.read_text(encoding="utf-8").strip(),
            port=database.port,
        )
        (self.root / "wp-config.php").unlink(missing_ok=True)
        (self.root / "wp-config.php").write_text(text, encoding="utf-8")
        for file in self.root.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        index = "<IfModule !dir_module>\nLoadModule dir_module {}\n</IfModule>\nDirectoryIndex index.php\n"
        module = Path(self._modules[0][1]).with_name("mod_dir.so")
        (self.snippet_directory / "index.conf").write_text(index.format(module), encoding="utf-8")

    def fill(self) -> tuple[str, ...]:
        """Installs it and writes its posts; returns their paths.

        Raises:
            TrimtabError: it is not as it should be.
        """
        form = {"weblog_title": "trimtab", "user_name": "admin", "admin_email": "admin@example.org", "pw_weak": "1"}
        form |= {"admin_password": "private", "admin_password2": "private", "blog_public": "0"}
        data, step = urllib.parse.urlencode(form).encode(), "/wp/wp-admin/install.php?step=2"
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{step}", data, timeout=INSTALL_S):
            pass
        code = f"$_SERVER['SERVER_PORT'] = {self.port};" + FILL.format(root=self.root, posts=POSTS)
        said = ran([own.required("php-cli", "php"), "-r", code], {})
        paths = tuple(f"/wp/?p={number}" for number in said.split())
        if len(paths) != POSTS:
            raise TrimtabError(f"WordPress could not be filled: {said[-300:]}")
        return paths


@contextlib.contextmanager
def serving(spec: ApacheSpec, behind_cores: float) -> Iterator[tuple[ApacheTestbed, Site]]:
    """Starts both servers and fills them.

    Args:
        spec: its Apache.
        behind_cores: MariaDB's.
    """
    database = MariadbSpec(cores=behind_cores, memory_limit_bytes=512 * MIB)
    with MariadbTestbed(database) as behind, WordPress(replace(spec, php=True), behind) as bed:
        pages = zipf([Url(path) for path in bed.fill()], 1.0)
        checked(bed, pages[0], "this is post 1.")
        yield bed, Site(pages, tuple(Url(f"/wp/wp-includes/{name}") for name in FILES))
