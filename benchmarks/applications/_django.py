"""Debian's Django in mod_wsgi's embedded mode, with SQLite: the site for administrators that comes with it.

Each worker of Apache is an interpreter of Python with all of the application, which it loads when it is first asked.
Whoever asks is the administrator: a middleware says so, as one that knows of a single sign-on would.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from _site import MIB, Site, checked

from trimtab.lab._applications import give, ran
from trimtab.testbed.apache import ApacheSpec, ApacheTestbed, module_directory
from trimtab.workloads._population import Url, zipf

SHIPPED = Path("/usr/lib/python3/dist-packages/django")
MARK = "bench-django"
MEMORY_BYTES = 3072 * MIB
PYTHON = "/usr/bin/python3"
"""Debian's own, which mod_wsgi has in it: another one does not know of its packages."""
USERS, CHANGED = 400, 20
"""Accounts, and those whose own page is asked for."""
FILES = ("css/base.css", "css/changelists.css", "js/core.js")
SETTINGS = """
import os
SECRET_KEY, DEBUG, ALLOWED_HOSTS, ROOT_URLCONF, USE_TZ = 'private', False, ['127.0.0.1'], 'urls', True
DATABASES = {{'default': {{'ENGINE': 'django.db.backends.sqlite3', 'NAME': '{data}/db.sqlite3'}}}}
INSTALLED_APPS = ['django.contrib.' + name for name in
    ('admin', 'auth', 'contenttypes', 'sessions', 'messages', 'staticfiles')]
MIDDLEWARE = ['django.contrib.sessions.middleware.SessionMiddleware', 'django.middleware.common.CommonMiddleware',
    'django.middleware.csrf.CsrfViewMiddleware', 'django.contrib.auth.middleware.AuthenticationMiddleware',
    'site_of_one.Administrator', 'django.contrib.messages.middleware.MessageMiddleware']
TEMPLATES = [{{'BACKEND': 'django.template.backends.django.DjangoTemplates', 'APP_DIRS': True, 'OPTIONS': {{
    'context_processors': ['django.template.context_processors.request',
        'django.contrib.auth.context_processors.auth', 'django.contrib.messages.context_processors.messages']}}}}]
STATIC_URL, DEFAULT_AUTO_FIELD = '/static/', 'django.db.models.AutoField'
"""
MIDDLEWARE = """
class Administrator:
    def __init__(self, get_response):
        self.get_response = get_response
    def __call__(self, request):
        from django.contrib.auth.models import User
        request.user = User.objects.get(username='admin')
        return self.get_response(request)
"""
URLS = """
from django.contrib import admin
from django.urls import path
urlpatterns = [path('admin/', admin.site.urls)]
"""
WSGI = """
import os
os.environ['DJANGO_SETTINGS_MODULE'] = 'settings'
from django.core.wsgi import get_wsgi_application
application = get_wsgi_application()
"""
FILL = """
import os
os.environ['DJANGO_SETTINGS_MODULE'] = 'settings'
import django
django.setup()
from django.core.management import call_command
call_command('migrate', verbosity=0)
from django.contrib.auth.models import User
User.objects.create(username='admin', is_staff=True, is_superuser=True)
User.objects.bulk_create([User(username=f'user{{n}}', last_name=f'{{n}}th') for n in range({users})])
"""
APACHE_CONFIGURATION = """
<IfModule !wsgi_module>
LoadModule wsgi_module {modules}/mod_wsgi.so
</IfModule>
WSGIScriptAlias /django {site}/wsgi.py
<Directory {site}>
    Require all granted
</Directory>
Alias /static {shipped}/contrib/admin/static
<Directory {shipped}/contrib/admin/static>
    Require all granted
</Directory>
"""


class Django(ApacheTestbed):
    """Apache with a site of Django's in it.

    Args:
        spec: the server.
    """

    def __init__(self, spec: ApacheSpec) -> None:
        super().__init__(spec, environment=lambda port: {"PYTHONPATH": os.fspath(self.site)})

    @property
    def site(self) -> Path:
        """Where its Python is."""
        return self.directory / "site"

    def furnish(self) -> None:
        """Writes the site and its database, and Apache's configuration."""
        super().furnish()
        data = self.directory / "data"
        for made in (self.site, data):
            made.mkdir(mode=0o755)
        settings = SETTINGS.format(data=data)
        texts = {"settings": settings, "site_of_one": MIDDLEWARE, "urls": URLS, "wsgi": WSGI}
        for name, text in texts.items():
            (self.site / f"{name}.py").write_text(text, encoding="ascii")
        ran([PYTHON, "-c", FILL.format(users=USERS)], {"PYTHONPATH": os.fspath(self.site)})
        give(data)
        text = APACHE_CONFIGURATION.format(modules=module_directory(), site=self.site, shipped=SHIPPED)
        (self.snippet_directory / "django.conf").write_text(text, encoding="ascii")


@contextlib.contextmanager
def serving(spec: ApacheSpec, behind_cores: float) -> Iterator[tuple[ApacheTestbed, Site]]:
    """Starts it.

    Args:
        spec: its Apache.
        behind_cores: of no account: its database is a file.
    """
    listed = [f"/django/admin/auth/user/?p={number}" for number in range(1, USERS // 100 + 1)]
    changed = [f"/django/admin/auth/user/{number}/change/" for number in range(2, CHANGED + 2)]
    pages = zipf([Url(path) for path in (*listed, *changed)], 1.0)
    with Django(spec) as bed:
        checked(bed, pages[0], "user100<")
        yield bed, Site(pages, tuple(Url(f"/static/admin/{name}") for name in FILES))
