"""Uploaded files: of which kinds, how many, how large."""

from urllib.parse import quote

from tests.explorer.asking import refused, running, upload


def test_a_file_of_another_kind_is_refused_before_it_is_read(server):
    kept = sorted(server.api.uploads.folder.iterdir())
    for name in ("model.pt", "z.pkl", "z", "", "../../z.exe"):
        refused(server, f"/api/embeddings?name={quote(name)}", 400, "come as .npy", method="POST", body=b"x" * 1000)
    assert sorted(server.api.uploads.folder.iterdir()) == kept


def test_the_oldest_upload_makes_room(tmp_path, monkeypatch):
    monkeypatch.setattr("hypersphere.explorer.uploads.MOST_KEPT", 3)
    with running() as server:
        sources = [upload(server, "z.npy", b"x" * (10 + k)) for k in range(5)]
        assert len(list(server.api.uploads.folder.iterdir())) == 3
        refused(server, f"/api/embeddings?source={sources[0]}", 404, "no longer kept")
        folder = server.api.uploads.folder
    assert not folder.exists()
