package shop;

import jakarta.servlet.DispatcherType;
import jakarta.servlet.ServletContext;
import jakarta.servlet.ServletContextEvent;
import jakarta.servlet.ServletContextListener;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import javax.sql.DataSource;

/** The bookstore: what is served where. */
public final class Shop implements ServletContextListener {
    static final List<String> SUBJECTS = List.of(
            "ARTS", "BIOGRAPHIES", "BUSINESS", "CHILDREN", "COMPUTERS", "COOKING", "HEALTH", "HISTORY", "HOME", "HUMOR",
            "LITERATURE", "MYSTERY", "NON-FICTION", "PARENTING", "POLITICS", "REFERENCE", "RELIGION", "ROMANCE",
            "SELF-HELP", "SCIENCE-NATURE", "SCIENCE-FICTION", "SPORTS", "YOUTH", "TRAVEL");
    private static final String BEST_SELLERS_AGE = "shop.bestSellersCacheS";
    private static final Set<String> GET = Set.of("GET");
    private static final Set<String> POST = Set.of("POST");

    private ServletContext context;
    private DataSource pool;
    private BestSellers bestSellers;

    @Override
    public void contextInitialized(ServletContextEvent event) {
        context = event.getServletContext();
        pool = lookUp();
        bestSellers = new BestSellers(Integer.getInteger(BEST_SELLERS_AGE, 0));
        read("home", new Home());
        read("new_products", new NewProducts());
        read("best_sellers", new BestSellersPage());
        read("search_request", new SearchRequest());
        read("search_results", new SearchResults());
        read("product_detail", new ProductDetail());
        write("shopping_cart", Set.of("GET", "POST"), new ShoppingCart());
        read("customer_registration", new CustomerRegistration());
        write("buy_request", POST, new BuyRequest());
        write("buy_confirm", POST, new BuyConfirm());
        read("order_inquiry", new OrderInquiry());
        page("order_display", POST, false, new OrderDisplay());
        read("admin_request", new AdminRequest());
        write("admin_confirm", POST, new AdminConfirm());
        context.addServlet("start", new Start()).addMapping("");
        context.addFilter("static", new StaticFiles())
                .addMappingForUrlPatterns(EnumSet.of(DispatcherType.REQUEST), false, "/images/*", "/style.css");
    }

    private void read(String name, Page page) {
        page(name, GET, false, page);
    }

    private void write(String name, Set<String> methods, Page page) {
        page(name, methods, true, page);
    }

    private void page(String name, Set<String> methods, boolean writes, Page page) {
        context.addServlet(name, new PageServlet(name, methods, writes, page, pool, bestSellers))
                .addMapping("/" + name);
    }

    private static DataSource lookUp() {
        try {
            return (DataSource) new InitialContext().lookup("java:comp/env/jdbc/shop");
        } catch (NamingException error) {
            throw new IllegalStateException("the shop has no data source jdbc/shop", error);
        }
    }

    /** Leads from the shop's address to its first page. */
    private static final class Start extends HttpServlet {
        private static final long serialVersionUID = 1L;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.sendRedirect(request.getContextPath() + "/home");
        }
    }
}
