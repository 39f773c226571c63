"""Maps that Python computes where the page has no formula."""

import numpy as np

from tests.explorer.asking import refused, tree


def test_a_map_without_a_closed_form_is_computed(server):
    status, answer = tree(server, "/api/map?objective=siglip&points=4&negatives=3")
    assert status == 200 and answer["computed"] == "gradient" and "no closed form" in answer["note"]
    assert np.shape(answer["maps"]["dissipation"]) == (4, 4) and len(answer["positive"]) == 4
    one = tree(server, "/api/map?objective=infonce&points=4&temperature=0.05")[1]
    two = tree(server, "/api/map?objective=infonce&points=4&temperature=0.5")[1]
    assert one["computed"] == "closed form" and one["maps"]["dissipation"] != two["maps"]["dissipation"]
    refused(server, "/api/map?objective=siglib", 400, "siglip")
    refused(server, "/api/map?objective=infonce&temperature=-1", 400, "temperature")
    refused(server, "/api/map?objective=infonce&temperature=nan", 400, "is a number")
    refused(server, "/api/map?objective=infonce&heat=1", 400, "no setting")
    refused(server, "/api/map?objective=infonce&points=4000", 400, "from 4 to 40")
