"""A short look at the console in a real browser: sign in, the tasks, a release and its picture."""

from pathlib import Path

from support.analyzer_world import TOKEN, living
from support.browser import chromium, needs_browser, served, visiting


@needs_browser
async def test_who_signs_in_sees_tasks_and_a_release_with_its_picture_and_nothing_is_asked_of_others(
    tmp_path: Path,
) -> None:
    async with living(tmp_path) as life, chromium() as browser:
        task = await life.create("sum", purpose="How long do people sleep?")
        await life.upload(task)
        release_id = await life.release(task)
        async with served(life.web) as origin, visiting(browser, origin, "dark") as visit:
            await visit.open(f"/releases/{release_id}")
            assert "/sign-in" in visit.page.url
            await visit.sign_in(TOKEN)
            assert "How long do people sleep?" in await visit.page.inner_text("main")
            assert await visit.seriously_wrong() == []
            assert await visit.open(f"/releases/{release_id}/analyses/means") == 200
            assert await visit.pictures_shown() == [True]
            assert "theme=dark" in await visit.page.evaluate("document.images[0].currentSrc")
            assert visit.elsewhere() == []
            assert visit.said == []
