"""Small versions of what the commands of this folder show with larger numbers."""

from pathlib import Path

from tests.server import backup_under_load, many_connections, mixed, two_servers


def test_idle_and_slow_connections_do_not_stop_ordinary_use(tmp_path: Path) -> None:
    course = many_connections.run(tmp_path, idle=180, slow=20, questions=3)
    assert course.held == 200


def test_a_server_is_killed_under_load_and_the_other_spends_the_cap_exactly(tmp_path: Path) -> None:
    course = two_servers.run(tmp_path, charges=24, threads=4)
    assert 24 - course.lost <= len(course.answers) <= 24


def test_a_backup_under_load_has_every_answer_that_left_before_it(tmp_path: Path) -> None:
    course = backup_under_load.run(tmp_path, backups=1, threads=3, between=10)
    assert course.compared[0] >= 10


def test_mixed_traffic_gets_the_expected_replies(tmp_path: Path) -> None:
    traffic = mixed.run(tmp_path, seconds=2.0, pause=0.1)
    assert set(traffic.requests) == {"http", "psycopg", "console", "strangers", "owner"}
