"""The servers: a RabbitMQ that speaks AMQP, and ElasticMQ, which speaks SQS.

ElasticMQ comes from Maven Central, by the Ivy that PySpark brings along, as Kafka does for `pares.dev` (Java 17).
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from pares.core.errors import CapabilityError
from pares.dev import RabbitMQ, ports
from pares.dev.kafka.jars import alone, proxies
from pares.dev.process import guarded, start
from pares.spark.java import require_java

VERSION: Final = "1.6.12"
_IVY: Final = f"""\
<ivy-module version="2.0">
  <info organisation="pares" module="elasticmq" revision="{VERSION}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.elasticmq" name="elasticmq-server_2.13" rev="{VERSION}" conf="default->default"/>
  </dependencies>
</ivy-module>
"""
_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
_CONFIG: Final = """\
include classpath("application.conf")
node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict }}
rest-stats {{ enabled = false }}
generate-node-address = false
"""
_PATIENCE: Final = 90.0


@contextmanager
def rabbitmq() -> Iterator[str]:
    """HOST:PORT of a RabbitMQ's listener for AMQP."""
    port = ports.free(["127.0.0.1"])[0]
    with RabbitMQ({"listeners.tcp.1": f"127.0.0.1:{port}"}):
        yield f"127.0.0.1:{port}"


@contextmanager
def elasticmq() -> Iterator[str]:
    """The endpoint of an ElasticMQ."""
    jars, java, port = _jars(), require_java("ElasticMQ"), ports.free(["127.0.0.1"])[0]
    with tempfile.TemporaryDirectory(prefix="pares-elasticmq-") as name:
        folder = Path(name)
        config, log = folder / "server.conf", folder / "server.log"
        config.write_text(_CONFIG.format(port=port))
        command = [str(java.java), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dconfig.file={config}"]
        command += ["-cp", str(jars / "*"), "org.elasticmq.server.Main"]
        server = start(command, log=log, folder=folder, survive=False)
        try:
            end = time.monotonic() + _PATIENCE
            while not _answers(port):
                if server.ended() is not None or time.monotonic() > end:
                    raise CapabilityError(f"ElasticMQ does not come up: {log.read_text(errors='replace')[-600:]}")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.identity.signal(9)
            server.wait(_PATIENCE)


def _answers(port: int) -> bool:
    wire = HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        wire.request("GET", "/?Action=ListQueues")
        return wire.getresponse().status < 500
    except (OSError, HTTPException):
        return False
    finally:
        wire.close()


def _jars() -> Path:
    """The folder with the jars, fetched once for each user."""
    from platformdirs import user_cache_path

    home = user_cache_path("pares", appauthor=False) / f"elasticmq-{VERSION}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with alone(home.parent / f"{home.name}.lock"):
        if home.exists():
            return home
        draft = Path(tempfile.mkdtemp(prefix=f"{home.name}-draft-", dir=home.parent))
        try:
            _fetch(draft)
            shutil.rmtree(draft / "ivy")
            draft.rename(home)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return home


def _fetch(draft: Path) -> None:
    work = draft / "ivy"
    work.mkdir()
    (work / "ivy.xml").write_text(_IVY)
    (work / "settings.xml").write_text(_SETTINGS)
    command = [str(require_java("ElasticMQ").java), *proxies(), f"-Divy.default.ivy.user.dir={work / 'user'}"]
    command += ["-jar", str(_ivy()), "-settings", str(work / "settings.xml"), "-cache", str(work / "cache")]
    command += ["-ivy", str(work / "ivy.xml"), "-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", str(draft / "[artifact]-[revision](-[classifier]).[ext]")]
    done = subprocess.run(
        guarded(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0 or not (draft / f"elasticmq-server_2.13-{VERSION}.jar").exists():
        raise CapabilityError(f"ElasticMQ could not be fetched from Maven Central: {done.stdout[-600:]}")


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted((Path(folder) / "jars").glob("ivy-*.jar")):
            return jar
    raise CapabilityError("ElasticMQ is fetched by the Ivy inside PySpark: pip install 'pares[spark]'")
